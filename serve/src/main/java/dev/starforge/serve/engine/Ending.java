package dev.starforge.serve.engine;

import dev.starforge.model.generate.StopReason;

/** How a sequence ended. */
public sealed interface Ending {
    /**
     * By itself, or because its sink had enough, which is {@link StopReason#STOP_SEQUENCE}.
     *
     * @param cachedTokens of the prompt that were found in the prefix cache
     */
    record Finished(StopReason reason, int cachedTokens) implements Ending {}

    record Cancelled() implements Ending {}

    /**
     * @param message for the log, not for the client
     */
    record Failed(Kind kind, String message) implements Ending {}

    enum Kind {
        OUT_OF_MEMORY,
        INFERENCE_FAILED
    }
}
