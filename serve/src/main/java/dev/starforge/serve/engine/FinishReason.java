package dev.starforge.serve.engine;

import dev.starforge.model.generate.StopReason;

/** How a sequence ended. */
public sealed interface FinishReason {
    /**
     * By itself, or because its sink had enough, which is {@link StopReason#STOP_SEQUENCE}.
     *
     * @param cachedTokens of the prompt that were found in the prefix cache
     */
    record Completed(StopReason reason, int cachedTokens) implements FinishReason {}

    record Cancelled() implements FinishReason {}

    /**
     * @param message for the log, not for the client
     */
    record EngineFailed(FailureKind kind, String message) implements FinishReason {}

    enum FailureKind {
        OUT_OF_MEMORY,
        INFERENCE_FAILED
    }
}
