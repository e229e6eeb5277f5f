package dev.starforge.api;

/**
 * A completion.
 *
 * @param text the generated text, without the prompt and without the stop string that ended it
 * @param promptTokens the number of prompt tokens
 * @param tokens the number of generated tokens
 * @param endReason why generation ended
 */
public record Completion(String text, int promptTokens, int tokens, EndReason endReason) {
    /** Why generation ended. */
    public enum EndReason {
        /** {@link GenerationConfig#maxTokens} tokens were generated. */
        MAX_TOKENS,
        /** The model generated an EOS token. */
        EOS_TOKEN,
        /** A stop string occurred. */
        STOP_STRING,
        /** The {@link TextListener} returned false. */
        CANCELLED
    }
}
