package dev.starforge.serve.engine;

/** Cancels a submitted sequence. */
@FunctionalInterface
public interface SequenceHandle {
    /** Ends the sequence after the current step at the latest and frees its KV blocks. Returns at once; idempotent. */
    void cancel();
}
