package dev.starforge.model.generate;

import dev.starforge.model.generate.GenerationException.Violation;
import dev.starforge.tensor.TokenWeights;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Decoding.SamplerSetting;
import java.util.ArrayList;
import java.util.List;

/**
 * How the next token is chosen. The settings and their order are those of HF's generation, and of OpenAI's for the two
 * penalties that HF does not have: repetition, presence and frequency penalty, temperature, top-k, top-p, min-p, typical.
 *
 * @param temperature 0 takes the most likely token; above, logits are divided by it
 * @param topK only the so many most likely tokens; 0 is all
 * @param topP only the most likely tokens that together have this probability (Holtzman et al. 2020); 1 is all
 * @param minP only tokens at least this probable, in proportion to the most likely one; 0 is all
 * @param typicalP only the tokens of the most expected surprise that together have this probability (Meister et al.
 *     2023); 1 is all
 * @param repetitionPenalty divides the logits of tokens in the prompt or the text when positive, multiplies them
 *     otherwise (Keskar et al. 2019); 1 does nothing
 * @param presencePenalty taken from the logits of tokens in the text
 * @param frequencyPenalty taken from the logits of tokens in the text as often as they are there
 * @param seed of the draws: the same request with the same seed has the same text
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

    /** The most likely token, always. */
    public static final SamplingParams GREEDY = new SamplingParams(0, 0, 1, 0, 1, 1, 0, 0, 0);

    /** The model's own distribution. */
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
                repetitionPenalty > 0 && repetitionPenalty < Double.POSITIVE_INFINITY,
                "repetition_penalty",
                "above 0",
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

    /** The row of {@link Decoding.Sample} that means the same. */
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

    /** Whether what was said before changes what comes next, other than through the model. */
    public boolean hasPenalties() {
        return repetitionPenalty != 1 || presencePenalty != 0 || frequencyPenalty != 0;
    }

    /** Whether the next token is the one of the highest logit, so that nobody needs the others. */
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
