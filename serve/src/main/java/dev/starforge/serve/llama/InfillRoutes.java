package dev.starforge.serve.llama;

import dev.starforge.model.generate.SamplingParams;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.api.UnsupportedFields;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.engine.OutputLimit;
import dev.starforge.serve.engine.StopConditions;
import dev.starforge.serve.generation.ActiveRequest;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.RepetitionLimit;
import dev.starforge.serve.generation.SamplingFields;
import dev.starforge.text.fim.FillInMiddle;
import dev.starforge.text.fim.FillInMiddle.Cursor;
import dev.starforge.text.fim.FillInMiddle.Snippet;
import dev.starforge.text.fim.FillInMiddle.Window;
import dev.starforge.text.fim.FimMarkers;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;
import tools.jackson.databind.JsonNode;

/** llama-server's {@code /infill}, which the editor plugins llama.vim and llama.vscode use for fill-in-the-middle completion. */
public final class InfillRoutes {
    private static final int MAX_CHOICES = 16;
    private static final long MAX_TIME_MS = 3_600_000;

    /** llama-server's default samplers, as far as they are supported here. */
    private static final SamplingParams DEFAULTS = SamplingParams.PLAIN
            .withTemperature(0.8)
            .withTopK(40)
            .withTopP(0.95)
            .withMinP(0.05);

    /** llama.cpp's infill sampler keeps tokens of at least this probability; here it is relative to the most likely token. */
    private static final double INFILL_MIN_P = 0.2;

    private final InferenceService inference;
    private final LongSupplier seeds;

    public InfillRoutes(InferenceService inference, LongSupplier seeds) {
        this.inference = inference;
        this.seeds = seeds;
    }

    public List<ApiRoute> routes() {
        return List.of(new ApiRoute("POST", "/infill", Api.OPENAI, Execution.GENERATION, this::infill));
    }

    private void infill(Call call) throws IOException, InterruptedException {
        InferenceEngine engine = inference.engine();
        ModelCard card = engine.card();
        RequestFields fields = call.fields();
        if (FimMarkers.of(card.tokenizer()).isEmpty()) {
            throw InvalidRequestException.of(
                    "input_prefix", "a model with fill-in-the-middle tokens; this one has none");
        }
        for (String name : List.of("input_prefix", "input_suffix")) {
            if (!fields.has(name)) {
                fields.violate(name, "a string");
            }
        }
        boolean healing = fields.flag("token_healing", true);
        boolean stopRepetition = fields.flag("stop_repetition", true);
        String prefix = fields.string("input_prefix", "");
        String suffix = fields.string("input_suffix", "");
        String typed = fields.string("prompt", "");
        List<Snippet> snippets = snippets(fields);
        int predict = (int) fields.integer("n_predict", -1, card.context(), -1);
        int choices = (int) fields.integer("n_cmpl", 1, MAX_CHOICES, 1);
        int indent = (int) fields.integer("n_indent", 0, Integer.MAX_VALUE, 0);
        Duration time = Duration.ofMillis(Math.max(0, fields.integer("t_max_predict_ms", -1, MAX_TIME_MS, 0)));
        List<String> responseFields = fields.strings("response_fields");
        boolean stream = fields.flag("stream", false);
        SamplingParams sampling = sampling(fields);
        List<String> stops = SamplingFields.stops(fields);
        String adapter = engine.adapterOf(fields.string("model", "")); // editors send names of their own
        fields.check();

        FillInMiddle gap = FillInMiddle.of(card.tokenizer(), Path.of(card.id()));
        int reserved = predict < 0 ? card.context() / 4 : predict;
        Window window = gap.window(
                new Cursor(prefix, typed, suffix),
                snippets,
                FillInMiddle.NEAR_TOKENS,
                card.context() - reserved,
                healing);
        int maxTokens = predict < 0 ? card.context() - window.prompt().ids().length : predict;
        StopConditions given = new StopConditions(maxTokens, gap.ends(), false)
                .withStrings(stops)
                .withOutputLimit(
                        () -> new InfillLimit(indent, time, stopRepetition ? new RepetitionLimit() : OutputLimit.NONE));
        StopConditions stop = stopRepetition ? SamplingFields.withSuffix(given, suffix) : given;
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < choices; i++) {
            requests.add(new GenerationRequest(
                    window.prompt(),
                    sampling.withSeed(sampling.seed() + i),
                    stop,
                    GenerationRequest.NO_LOGPROBS,
                    adapter,
                    call.tenant()));
        }
        try (ActiveRequest active = inference.start(engine, requests)) {
            call.releaseBody();
            call.onDisconnect(active::cancel);
            InfillResponse response = new InfillResponse(
                    adapter.isEmpty() ? card.untuned() : adapter, window.truncated(), responseFields);
            active.writeTo(
                    stream
                            ? new StreamedInfillWriter(response, call, choices)
                            : new WholeInfillWriter(response, call, choices));
        }
    }

    private static List<Snippet> snippets(RequestFields fields) {
        JsonNode extra = fields.node("input_extra");
        List<Snippet> snippets = new ArrayList<>();
        boolean valid = !fields.has("input_extra") || extra.isArray();
        for (JsonNode chunk : extra.isArray() ? extra : Jackson.JSON.createArrayNode()) {
            JsonNode file = chunk.path("filename");
            valid &= chunk.path("text").isString() && (file.isMissingNode() || file.isString());
            snippets.add(new Snippet(file.asString(""), chunk.path("text").asString("")));
        }
        if (!valid) {
            fields.violate("input_extra", "a list of {\"filename\": string, \"text\": string}");
        }
        return snippets.stream()
                .map(each -> each.file().isEmpty() ? new Snippet("snippet", each.text()) : each)
                .toList();
    }

    /** With {@code samplers}, only the listed samplers apply. */
    private SamplingParams sampling(RequestFields fields) {
        SamplingParams all = new SamplingFields(fields, DEFAULTS)
                .common("repeat_penalty", seeds)
                .penalties()
                .sampling();
        UnsupportedFields.reject(fields);
        if (!fields.has("samplers")) {
            return all;
        }
        List<String> listed = fields.strings("samplers");
        SamplingParams selected = SamplingParams.PLAIN.withSeed(all.seed());
        for (String name : listed) {
            selected = switch (name) {
                case "temperature" -> selected.withTemperature(all.temperature());
                case "top_k" -> selected.withTopK(all.topK());
                case "top_p" -> selected.withTopP(all.topP());
                case "min_p" -> selected.withMinP(Math.max(selected.minP(), all.minP()));
                case "typ_p", "typical_p" -> selected.withTypicalP(all.typicalP());
                case "penalties" ->
                    selected.withRepetitionPenalty(all.repetitionPenalty())
                            .withPresencePenalty(all.presencePenalty())
                            .withFrequencyPenalty(all.frequencyPenalty());
                case "infill" -> selected.withMinP(Math.max(selected.minP(), INFILL_MIN_P));
                default -> selected;
            };
        }
        return selected;
    }
}
