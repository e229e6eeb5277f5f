package dev.starforge.serve.generation;

import java.time.Duration;

/**
 * What a sequence took.
 *
 * @param cachedTokens of the prompt that were found in the prefix cache
 * @param toFirst from its arrival to its first token, or to its end if there was none
 * @param decode from the first token to the last
 */
public record Tally(int promptTokens, int cachedTokens, int tokens, Duration toFirst, Duration decode) {
    public double tokensPerSecond() {
        return tokens < 2 || decode.isZero() ? 0 : (tokens - 1) / (decode.toNanos() / 1e9);
    }
}
