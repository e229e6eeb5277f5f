package dev.starforge.serve.engine;

/** Receives the tokens of one sequence. Called on the engine's thread, which serves all sequences: must not block. */
public interface TokenSink {
    /**
     * Receives a token as soon as it is sampled: before the next step, or while an asynchronous device computes it. End-of-text
     * tokens are not passed.
     *
     * @return false to stop generation; {@link #end} follows
     */
    boolean token(GeneratedToken token);

    /** Called exactly once, last. */
    void end(FinishReason reason);
}
