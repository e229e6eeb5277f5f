package dev.starforge.serve.engine;

import dev.starforge.model.generate.StopReason;

/** Why the engine stopped generating a sequence. */
public sealed interface FinishReason {
    /**
     * Generation stopped as requested. {@link StopReason#STOP_SEQUENCE} means that the sink accepted no more tokens.
     *
     * @param cachedTokens prompt tokens found in the prefix cache
     */
    record Completed(StopReason reason, int cachedTokens) implements FinishReason {}

    record Cancelled() implements FinishReason {}

    /** @param message for the log; not sent to the client */
    record EngineFailed(FailureKind kind, String message) implements FinishReason {}

    enum FailureKind {
        OUT_OF_MEMORY,
        INFERENCE_FAILED
    }
}
