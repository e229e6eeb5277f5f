package dev.starforge.api;

/**
 * What a model wrote.
 *
 * @param text without the prompt, and without the stop text that ended it
 * @param promptTokens how many tokens the prompt had
 * @param tokens how many were generated
 * @param end why there are no more
 */
public record Completion(String text, int promptTokens, int tokens, EndReason endReason) {
    /** Why a text ended. */
    public enum EndReason {
        /** As many tokens as were asked for. */
        MAX_TOKENS,
        /** The model ended the text. */
        EOS_TOKEN,
        /** A stop text came. */
        STOP_STRING,
        /** Whoever listened wanted no more. */
        CANCELLED
    }
}
