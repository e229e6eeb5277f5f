package dev.starforge.serve.engine;

/** A sequence in the engine. */
@FunctionalInterface
public interface SequenceHandle {
    /** Ends it after the step under way at the latest, and gives its KV blocks back. Returns at once; again is no error. */
    void cancel();
}
