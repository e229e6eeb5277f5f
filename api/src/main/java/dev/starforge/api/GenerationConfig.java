package dev.starforge.api;

import dev.starforge.model.generate.SamplingParams;
import java.util.List;

/**
 * How a text is continued. The settings mean what they mean in HF's generation; a value out of range is refused when it is
 * used.
 *
 * @param maxTokens new tokens at most
 * @param temperature 0 takes the most likely token; above, logits are divided by it
 * @param topK only the so many most likely tokens; 0 is all
 * @param topP only the most likely tokens that together have this probability; 1 is all
 * @param minP only tokens at least this probable, in proportion to the most likely one; 0 is all
 * @param repetitionPenalty above 1, tokens that are there already become less likely; 1 does nothing
 * @param seed of the draws: the same text with the same seed is continued the same way
 * @param stops texts that end the answer, and are not part of it
 */
public record GenerationConfig(
        int maxTokens,
        double temperature,
        int topK,
        double topP,
        double minP,
        double repetitionPenalty,
        long seed,
        List<String> stopStrings) {
    /** Checks what needs no model. */
    public GenerationConfig {
        stopStrings = List.copyOf(stopStrings);
        if (maxTokens < 1) {
            throw new StarforgeException("maxTokens: expected at least 1, got " + maxTokens);
        }
    }

    /**
     * The most likely token, always.
     *
     * @param maxTokens new tokens at most
     * @return such settings, without stop texts
     */
    public static GenerationConfig greedy(int maxTokens) {
        return new GenerationConfig(maxTokens, 0, 0, 1, 0, 1, 0, List.of());
    }

    /**
     * The model's own distribution, at a temperature.
     *
     * @param maxTokens new tokens at most
     * @param temperature 0 to 2
     * @param seed of the draws
     * @return such settings, without stop texts
     */
    public static GenerationConfig sampled(int maxTokens, double temperature, long seed) {
        return new GenerationConfig(maxTokens, temperature, 0, 1, 0, 1, seed, List.of());
    }

    /**
     * These settings with other stop texts.
     *
     * @param texts that end the answer
     * @return a copy
     */
    public GenerationConfig withStopStrings(String... texts) {
        return new GenerationConfig(maxTokens, temperature, topK, topP, minP, repetitionPenalty, seed, List.of(texts));
    }

    SamplingParams sampling() {
        return new SamplingParams(temperature, topK, topP, minP, 1, repetitionPenalty, 0, 0, seed);
    }
}
