package dev.starforge.serve.engine;

/** Where a sequence goes. Called on the engine's thread, which serves everybody: it must not wait. */
public interface TokenSink {
    /**
     * A token, as soon as it is chosen: before the next is computed, or while a device that is asynchronous computes it. An
     * end-of-text token is no token of the text, and does not come here.
     *
     * @return false when the text is to end here; {@link #end} then follows
     */
    boolean token(GeneratedToken token);

    /** The last call, exactly once. */
    void end(FinishReason ending);
}
