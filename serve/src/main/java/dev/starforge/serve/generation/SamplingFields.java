package dev.starforge.serve.generation;

import dev.starforge.model.generate.GenerationException;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.generate.StopStrings;
import dev.starforge.serve.api.FieldViolation;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.StopConditions;
import dev.starforge.text.fim.SuffixStops;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.Stream;

/** Reads sampling parameters and stop strings; {@link SamplingParams} and {@link StopStrings} check their ranges. */
public final class SamplingFields {
    private static final String REPETITION_PENALTY = "repetition_penalty";

    private final RequestFields fields;
    private SamplingParams sampling;
    private String repetitionName = REPETITION_PENALTY;

    /** @param defaults of absent fields */
    public SamplingFields(RequestFields fields, SamplingParams defaults) {
        this.fields = fields;
        sampling = defaults;
    }

    /** Reads temperature, top_p, top_k, min_p, seed, and the repetition penalty under the API's name for it. */
    public SamplingFields common(String repetitionPenalty, LongSupplier seeds) {
        repetitionName = repetitionPenalty;
        double temperature = fields.number("temperature", sampling.temperature());
        double topP = fields.number("top_p", sampling.topP());
        // vLLM and llama.cpp use -1 for no limit
        long topK = Math.max(0, fields.integer("top_k", -1, Integer.MAX_VALUE, sampling.topK()));
        double minP = fields.number("min_p", sampling.minP());
        double repetition = fields.number(repetitionPenalty, sampling.repetitionPenalty());
        long seed = fields.has("seed") ? fields.integer("seed", Long.MIN_VALUE, Long.MAX_VALUE, 0) : seeds.getAsLong();
        return set(() ->
                new SamplingParams(temperature, (int) topK, topP, minP, sampling.typicalP(), repetition, 0, 0, seed));
    }

    /** Reads OpenAI's penalties, and typical_p. */
    public SamplingFields penalties() {
        double typical = fields.number("typical_p", sampling.typicalP());
        double presence = fields.number("presence_penalty", sampling.presencePenalty());
        double frequency = fields.number("frequency_penalty", sampling.frequencyPenalty());
        return set(() -> new SamplingParams(
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

    /** Reads the stop strings of the field {@code stop}. */
    public static List<String> stops(RequestFields fields) {
        List<String> stops = fields.strings("stop");
        try {
            StopStrings _ = new StopStrings(stops);
            return stops;
        } catch (GenerationException e) {
            fields.add(violations(e, REPETITION_PENALTY));
            return List.of();
        }
    }

    /** Adds the strings that end the middle where it begins to repeat the suffix, as far as there is room for more. */
    public static StopConditions withSuffix(StopConditions stop, String suffix) {
        SuffixStops stops = SuffixStops.of(suffix);
        return stop.withStrings(Stream.concat(stop.strings().stream(), stops.strings().stream())
                        .limit(StopStrings.MAX_STRINGS)
                        .toList())
                .withFirstLineStrings(stops.firstLine());
    }

    private SamplingFields set(Supplier<SamplingParams> params) {
        try {
            sampling = params.get();
        } catch (GenerationException e) {
            fields.add(violations(e, repetitionName));
        }
        return this;
    }

    private static List<FieldViolation> violations(GenerationException e, String repetitionName) {
        return e.violations().stream()
                .map(each -> new FieldViolation(
                        each.field().equals(REPETITION_PENALTY) ? repetitionName : each.field(),
                        each.constraint() + ", got " + each.value()))
                .toList();
    }
}
