package dev.starforge.serve.generation;

import dev.starforge.model.generate.GenerationException;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.generate.StopStrings;
import dev.starforge.serve.api.FieldViolation;
import dev.starforge.serve.api.RequestFields;
import java.util.List;
import java.util.function.LongSupplier;

/** How a request says what text it wants: sampling and stop strings, whose ranges the model's own classes know. */
public final class SamplingFields {
    private final RequestFields fields;
    private SamplingParams sampling;

    /** @param defaults of what the request does not say */
    public SamplingFields(RequestFields fields, SamplingParams defaults) {
        this.fields = fields;
        sampling = defaults;
    }

    /** temperature, top_p, top_k, min_p, seed, and the repetition penalty under the name that the API has for it. */
    public SamplingFields common(String repetitionPenalty, LongSupplier seeds) {
        double temperature = fields.number("temperature", sampling.temperature());
        double topP = fields.number("top_p", sampling.topP());
        // -1 is how vLLM and llama.cpp write all
        long topK = Math.max(0, fields.integer("top_k", -1, Integer.MAX_VALUE, sampling.topK()));
        double minP = fields.number("min_p", sampling.minP());
        double repetition = fields.number(repetitionPenalty, sampling.repetitionPenalty());
        long seed = fields.has("seed") ? fields.integer("seed", Long.MIN_VALUE, Long.MAX_VALUE, 0) : seeds.getAsLong();
        return set(new SamplingDraft(temperature, (int) topK, topP, minP, sampling.typicalP(), repetition, 0, 0, seed));
    }

    /** The penalties of OpenAI, and typical sampling. */
    public SamplingFields penalties() {
        double typical = fields.number("typical_p", sampling.typicalP());
        double presence = fields.number("presence_penalty", sampling.presencePenalty());
        double frequency = fields.number("frequency_penalty", sampling.frequencyPenalty());
        return set(new SamplingDraft(
                sampling.temperature(),
                sampling.topK(),
                sampling.topP(),
                sampling.minP(),
                typical,
                sampling.repetitionPenalty(),
                presence,
                frequency,
                sampling.seed()));
    }

    public SamplingParams sampling() {
        return sampling;
    }

    /** The stop strings of the field {@code stop}. */
    public static List<String> stops(RequestFields fields) {
        List<String> stops = fields.strings("stop");
        try {
            StopStrings _ = new StopStrings(stops);
            return stops;
        } catch (GenerationException wrong) {
            fields.add(violations(wrong));
            return List.of();
        }
    }

    private record SamplingDraft(
            double temperature,
            int topK,
            double topP,
            double minP,
            double typicalP,
            double repetition,
            double presence,
            double frequency,
            long seed) {
        SamplingParams sampling() {
            return new SamplingParams(temperature, topK, topP, minP, typicalP, repetition, presence, frequency, seed);
        }
    }

    private SamplingFields set(SamplingDraft draft) {
        try {
            sampling = draft.sampling();
        } catch (GenerationException wrong) {
            fields.add(violations(wrong));
        }
        return this;
    }

    private static List<FieldViolation> violations(GenerationException wrong) {
        return wrong.violations().stream()
                .map(each -> new FieldViolation(each.field(), each.constraint() + ", got " + each.value()))
                .toList();
    }
}
