package dev.starforge.model.generate;

import dev.starforge.model.generate.GenerationException.Violation;
import dev.starforge.tensor.TokenWeights;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Decoding.SamplerSetting;
import java.util.ArrayList;
import java.util.List;

/**
 * Sampling parameters. Names, meaning and order of application follow HF transformers, and OpenAI for the presence and
 * frequency penalties: repetition, presence and frequency penalty, temperature, top-k, top-p, min-p, typical.
 *
 * @param temperature divides the logits; 0 is greedy decoding
 * @param topK keeps the {@code topK} most likely tokens; 0 keeps all
 * @param topP keeps the most likely tokens with this cumulative probability (Holtzman et al. 2020); 1 keeps all
 * @param minP keeps tokens with at least this fraction of the largest probability; 0 keeps all
 * @param typicalP keeps the tokens whose surprise is closest to the entropy, with this cumulative probability (Meister et
 *     al. 2023); 1 keeps all
 * @param repetitionPenalty divides positive and multiplies negative logits of tokens in the prompt or the generated text
 *     (Keskar et al. 2019); 1 has no effect; 0.01 to 100
 * @param presencePenalty subtracted from the logits of tokens that were generated
 * @param frequencyPenalty subtracted from the logits of generated tokens, once for each occurrence
 * @param seed of the random numbers; the same request with the same seed generates the same text
 */
public record SamplingParams(
        double temperature,
        int topK,
        double topP,
        double minP,
        double typicalP,
        double repetitionPenalty,
        double presencePenalty,
        double frequencyPenalty,
        long seed) {

    /** Beyond these, a penalized logit could overflow float32. */
    private static final double MIN_REPETITION_PENALTY = 0.01;

    private static final double MAX_REPETITION_PENALTY = 100;

    /** Greedy decoding. */
    public static final SamplingParams GREEDY = new SamplingParams(0, 0, 1, 0, 1, 1, 0, 0, 0);

    /** Samples from the unmodified distribution. */
    public static final SamplingParams PLAIN = GREEDY.withTemperature(1);

    public SamplingParams {
        List<Violation> wrong = new ArrayList<>();
        require(wrong, temperature >= 0 && temperature <= 2, "temperature", "0 to 2", temperature);
        require(wrong, topK >= 0, "top_k", "0 or more", topK);
        require(wrong, topP > 0 && topP <= 1, "top_p", "above 0 and at most 1", topP);
        require(wrong, minP >= 0 && minP < 1, "min_p", "at least 0 and below 1", minP);
        require(wrong, typicalP > 0 && typicalP <= 1, "typical_p", "above 0 and at most 1", typicalP);
        require(
                wrong,
                repetitionPenalty >= MIN_REPETITION_PENALTY && repetitionPenalty <= MAX_REPETITION_PENALTY,
                "repetition_penalty",
                MIN_REPETITION_PENALTY + " to " + MAX_REPETITION_PENALTY,
                repetitionPenalty);
        require(wrong, Math.abs(presencePenalty) <= 2, "presence_penalty", "-2 to 2", presencePenalty);
        require(wrong, Math.abs(frequencyPenalty) <= 2, "frequency_penalty", "-2 to 2", frequencyPenalty);
        if (!wrong.isEmpty()) {
            throw new GenerationException(wrong);
        }
    }

    private static void require(List<Violation> wrong, boolean right, String field, String constraint, Number value) {
        if (!right) {
            wrong.add(new Violation(field, constraint, value.toString()));
        }
    }

    /** Returns the parameters as a row of {@link Decoding.Sample}. */
    public float[] toRow() {
        float[] row = new float[SamplerSetting.COUNT];
        for (SamplerSetting setting : SamplerSetting.values()) {
            row[setting.ordinal()] = (float) value(setting);
        }
        return row;
    }

    private double value(SamplerSetting setting) {
        return switch (setting) {
            case REPETITION_PENALTY -> repetitionPenalty;
            case PRESENCE_PENALTY -> presencePenalty;
            case FREQUENCY_PENALTY -> frequencyPenalty;
            case TEMPERATURE -> temperature;
            case TOP_K -> Math.min(topK, TokenWeights.MAX_VOCABULARY);
            case TAIL -> 1 - topP;
            case MIN_P -> minP;
            case TYPICAL_P -> typicalP;
        };
    }

    /** Returns true if a penalty applies, so that token counts are needed. */
    public boolean hasPenalties() {
        return repetitionPenalty != 1 || presencePenalty != 0 || frequencyPenalty != 0;
    }

    /** Returns true if the next token is the argmax of the logits. */
    public boolean isGreedy() {
        return temperature == 0 && !hasPenalties();
    }

    public SamplingParams withTemperature(double value) {
        return new SamplingParams(
                value, topK, topP, minP, typicalP, repetitionPenalty, presencePenalty, frequencyPenalty, seed);
    }

    public SamplingParams withTopK(int value) {
        return new SamplingParams(
                temperature, value, topP, minP, typicalP, repetitionPenalty, presencePenalty, frequencyPenalty, seed);
    }

    public SamplingParams withTopP(double value) {
        return new SamplingParams(
                temperature, topK, value, minP, typicalP, repetitionPenalty, presencePenalty, frequencyPenalty, seed);
    }

    public SamplingParams withMinP(double value) {
        return new SamplingParams(
                temperature, topK, topP, value, typicalP, repetitionPenalty, presencePenalty, frequencyPenalty, seed);
    }

    public SamplingParams withTypicalP(double value) {
        return new SamplingParams(
                temperature, topK, topP, minP, value, repetitionPenalty, presencePenalty, frequencyPenalty, seed);
    }

    public SamplingParams withRepetitionPenalty(double value) {
        return new SamplingParams(
                temperature, topK, topP, minP, typicalP, value, presencePenalty, frequencyPenalty, seed);
    }

    public SamplingParams withPresencePenalty(double value) {
        return new SamplingParams(
                temperature, topK, topP, minP, typicalP, repetitionPenalty, value, frequencyPenalty, seed);
    }

    public SamplingParams withFrequencyPenalty(double value) {
        return new SamplingParams(
                temperature, topK, topP, minP, typicalP, repetitionPenalty, presencePenalty, value, seed);
    }

    public SamplingParams withSeed(long value) {
        return new SamplingParams(
                temperature, topK, topP, minP, typicalP, repetitionPenalty, presencePenalty, frequencyPenalty, value);
    }
}
