package dev.starforge.api;

import dev.starforge.model.generate.SamplingParams;
import java.util.List;

/**
 * Generation parameters. They mean the same as in HF transformers' {@code GenerationConfig}. A sampling parameter out of range
 * is rejected when the config is used.
 *
 * @param maxTokens maximum number of new tokens
 * @param temperature divides the logits; 0 is greedy decoding
 * @param topK keeps the {@code topK} most likely tokens; 0 keeps all
 * @param topP keeps the most likely tokens with this cumulative probability; 1 keeps all
 * @param minP keeps tokens with at least this fraction of the largest probability; 0 keeps all
 * @param repetitionPenalty above 1, makes tokens that occurred before less likely; 1 has no effect
 * @param seed of the random numbers; the same prompt with the same seed gives the same completion
 * @param stopStrings strings that end the completion; they are not part of it
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
    /** Checks the parameters that do not depend on a model. */
    public GenerationConfig {
        stopStrings = List.copyOf(stopStrings);
        if (maxTokens < 1) {
            throw new StarforgeException("maxTokens: expected at least 1, got " + maxTokens);
        }
    }

    /**
     * Returns a config for greedy decoding.
     *
     * @param maxTokens maximum number of new tokens
     * @return the config, without stop strings
     */
    public static GenerationConfig greedy(int maxTokens) {
        return new GenerationConfig(maxTokens, 0, 0, 1, 0, 1, 0, List.of());
    }

    /**
     * Returns a config for sampling at a temperature.
     *
     * @param maxTokens maximum number of new tokens
     * @param temperature 0 to 2
     * @param seed of the random numbers
     * @return the config, without stop strings
     */
    public static GenerationConfig sampled(int maxTokens, double temperature, long seed) {
        return new GenerationConfig(maxTokens, temperature, 0, 1, 0, 1, seed, List.of());
    }

    /**
     * Returns a copy with these stop strings.
     *
     * @param strings strings that end the completion
     * @return the copy
     */
    public GenerationConfig withStopStrings(String... strings) {
        return new GenerationConfig(
                maxTokens, temperature, topK, topP, minP, repetitionPenalty, seed, List.of(strings));
    }

    SamplingParams sampling() {
        return new SamplingParams(temperature, topK, topP, minP, 1, repetitionPenalty, 0, 0, seed);
    }
}
