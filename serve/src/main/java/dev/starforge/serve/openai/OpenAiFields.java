package dev.starforge.serve.openai;

import dev.starforge.model.generate.SamplingParams;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.api.UnsupportedFields;
import dev.starforge.serve.engine.AdapterCard;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.OutputLimit;
import dev.starforge.serve.engine.StopConditions;
import dev.starforge.serve.generation.RepetitionLimit;
import dev.starforge.serve.generation.SamplingFields;
import dev.starforge.serve.http.HttpException;
import dev.starforge.text.tokenizer.HealedPrompt;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/** Request fields that completions and chat completions share. Unsupported fields that would change the output are rejected. */
final class OpenAiFields {
    private static final int MAX_CHOICES = 16;

    private final RequestFields fields;
    private final InferenceEngine engine;
    private final SamplingParams sampling;
    private final String model;
    private final int choices;
    private final boolean ignoreEos;
    private final List<String> stops;
    private String repeated = "";
    private Supplier<OutputLimit> limit = () -> OutputLimit.NONE;

    OpenAiFields(RequestFields fields, InferenceEngine engine, LongSupplier seeds) {
        this.fields = fields;
        this.engine = engine;
        sampling = new SamplingFields(fields, SamplingParams.PLAIN)
                .common("repetition_penalty", seeds)
                .penalties()
                .sampling();
        stops = SamplingFields.stops(fields);
        choices = (int) fields.integer("n", 1, MAX_CHOICES, 1);
        ignoreEos = fields.flag("ignore_eos", false);
        model = fields.string("model", "");
        UnsupportedFields.reject(fields);
        RequestFields format = fields.section("response_format");
        if (!format.string("type", "text").equals("text")) {
            fields.violate("response_format", "the type text: output cannot be constrained");
        }
    }

    /**
     * Reads whether a completion ends when it repeats itself, or begins to repeat the suffix.
     *
     * @param suffix empty if there is none
     */
    void stopRepetition(boolean defaultValue, String suffix) {
        if (fields.flag("stop_repetition", defaultValue)) {
            repeated = suffix;
            limit = RepetitionLimit::new;
        }
    }

    int choices() {
        return choices;
    }

    boolean stream() {
        return fields.flag("stream", false);
    }

    boolean includeUsage() {
        return fields.section("stream_options").flag("include_usage", false);
    }

    /** The adapter that {@code model} names; empty for the model without adapter. */
    String adapter() {
        return adapter(engine, model);
    }

    static String adapter(InferenceEngine engine, String model) {
        boolean loaded = engine.adapters().stream().map(AdapterCard::name).anyMatch(model::equals);
        if (!loaded && !model.isEmpty() && !engine.card().isNamed(model)) {
            throw new HttpException(404, "model_not_found", "no such model or adapter here; GET /v1/models lists them");
        }
        return engine.adapterOf(model);
    }

    /** The model name in the response. */
    String model() {
        return model.isEmpty() ? engine.card().id() : model;
    }

    /** The limit of generated tokens: the field {@code name}, or llama-server's {@code n_predict}, where -1 is no limit. */
    int maxTokens(String name, int defaultValue) {
        int context = engine.card().context();
        long predict = fields.integer("n_predict", -1, context, -1);
        long llama = fields.has("n_predict") ? predict < 0 ? defaultValue : predict : defaultValue;
        return (int) fields.integer(name, 0, context, llama);
    }

    /** The requests for {@code n} choices of each prompt, each with its own seed. */
    List<GenerationRequest> requests(
            List<HealedPrompt> prompts, int maxTokens, Set<Integer> stopTokens, int logprobs, String tenant) {
        String adapter = adapter();
        StopConditions stop = SamplingFields.withSuffix(
                new StopConditions(maxTokens, stopTokens, ignoreEos)
                        .withStrings(stops)
                        .withOutputLimit(limit),
                repeated);
        List<GenerationRequest> requests = new ArrayList<>();
        for (HealedPrompt prompt : prompts) {
            for (int i = 0; i < choices; i++) {
                SamplingParams seeded = sampling.withSeed(sampling.seed() + i);
                requests.add(new GenerationRequest(prompt, seeded, stop, logprobs, adapter, tenant));
            }
        }
        return requests;
    }
}
