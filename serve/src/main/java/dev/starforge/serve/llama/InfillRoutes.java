package dev.starforge.serve.llama;

import dev.starforge.model.generate.SamplingParams;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.ApiRoute.Weight;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.AdapterCard;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.generation.ActiveRequest;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.Prompt;
import dev.starforge.serve.generation.SamplingFields;
import dev.starforge.text.fim.FillInMiddle;
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

/**
 * llama-server's {@code /infill}, by which the editor clients llama.vim and llama.vscode ask for the text at the cursor. Both
 * work against it as they are; their requests are among the tests.
 */
public final class InfillRoutes {
    private static final int MOST_CHOICES = 16;
    private static final int NEAR = 2048;
    private static final long LONGEST_TIME = 3_600_000;

    /** The samplers that llama-server runs unless told otherwise, as far as we have them. */
    private static final SamplingParams DEFAULTS = SamplingParams.PLAIN
            .withTemperature(0.8)
            .withTopK(40)
            .withTopP(0.95)
            .withMinP(0.05);

    /** llama.cpp's sampler for filling in keeps what is at least this probable; ours in proportion to the most likely. */
    private static final double INFILL_MIN_P = 0.2;

    private final InferenceService inference;
    private final LongSupplier seeds;

    public InfillRoutes(InferenceService inference, LongSupplier seeds) {
        this.inference = inference;
        this.seeds = seeds;
    }

    public List<ApiRoute> routes() {
        return List.of(new ApiRoute("POST", "/infill", Api.OPENAI, Weight.WORK, this::infill));
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
        if (fields.flag("token_healing", false)) {
            fields.violate("token_healing", "false: the middle begins with a token of its own");
        }
        String prefix = fields.string("input_prefix", "");
        String suffix = fields.string("input_suffix", "");
        String begun = fields.string("prompt", "");
        List<Snippet> snippets = snippets(fields);
        int predict = (int) fields.integer("n_predict", -1, card.context(), -1);
        int choices = (int) fields.integer("n_cmpl", 1, MOST_CHOICES, 1);
        int indent = (int) fields.integer("n_indent", 0, Integer.MAX_VALUE, 0);
        Duration time = Duration.ofMillis(Math.max(0, fields.integer("t_max_predict_ms", -1, LONGEST_TIME, 0)));
        List<String> responseFields = fields.strings("response_fields");
        boolean stream = fields.flag("stream", false);
        SamplingParams sampling = sampling(fields);
        List<String> stops = SamplingFields.stops(fields);
        String adapter = adapter(engine, fields.string("model", ""));
        fields.check();

        FillInMiddle gap = FillInMiddle.of(card.tokenizer(), Path.of(card.id()));
        int reserved = predict < 0 ? card.context() / 4 : predict;
        Window window = gap.window(prefix, begun, suffix, snippets, NEAR, card.context() - reserved);
        int maxTokens = predict < 0 ? card.context() - window.prompt().length : predict;
        List<Prompt> prompts = new ArrayList<>();
        for (int i = 0; i < choices; i++) {
            prompts.add(new Prompt(
                    new GenerationRequest(
                            window.prompt(),
                            maxTokens,
                            sampling.withSeed(sampling.seed() + i),
                            gap.ends(),
                            GenerationRequest.NO_LOGPROBS,
                            adapter,
                            call.tenant()),
                    stops,
                    () -> new InfillLimit(indent, time)));
        }
        try (ActiveRequest run = inference.start(engine, prompts)) {
            call.onDisconnect(run::cancel);
            InfillAnswer answer = new InfillAnswer(card.id(), window.truncated(), responseFields);
            if (stream) {
                answer.stream(call, run);
            } else {
                answer.whole(call, run);
            }
        }
    }

    private static List<Snippet> snippets(RequestFields fields) {
        JsonNode extra = fields.node("input_extra");
        List<Snippet> snippets = new ArrayList<>();
        boolean right = !fields.has("input_extra") || extra.isArray();
        for (JsonNode chunk : extra.isArray() ? extra : Jackson.JSON.createArrayNode()) {
            JsonNode file = chunk.path("filename");
            right &= chunk.path("text").isString() && (file.isMissingNode() || file.isString());
            snippets.add(new Snippet(file.asString(""), chunk.path("text").asString("")));
        }
        if (!right) {
            fields.violate("input_extra", "a list of {\"filename\": string, \"text\": string}");
        }
        return snippets.stream()
                .map(each -> each.file().isEmpty() ? new Snippet("snippet", each.text()) : each)
                .toList();
    }

    /** With {@code samplers}, only those that it lists; one that is not listed does nothing. */
    private SamplingParams sampling(RequestFields fields) {
        SamplingParams all = new SamplingFields(fields, DEFAULTS)
                .common("repeat_penalty", seeds)
                .penalties()
                .sampling();
        if (!fields.has("samplers")) {
            return all;
        }
        List<String> listed = fields.strings("samplers");
        SamplingParams some = SamplingParams.PLAIN.withSeed(all.seed());
        for (String name : listed) {
            some = switch (name) {
                case "temperature" -> some.withTemperature(all.temperature());
                case "top_k" -> some.withTopK(all.topK());
                case "top_p" -> some.withTopP(all.topP());
                case "min_p" -> some.withMinP(Math.max(some.minP(), all.minP()));
                case "typ_p", "typical_p" -> some.withTypicalP(all.typicalP());
                case "penalties" ->
                    some.withRepetitionPenalty(all.repetitionPenalty())
                            .withPresencePenalty(all.presencePenalty())
                            .withFrequencyPenalty(all.frequencyPenalty());
                case "infill" -> some.withMinP(Math.max(some.minP(), INFILL_MIN_P));
                default -> some;
            };
        }
        return some;
    }

    /** Clients send the name of whatever they believe to be there; an adapter is taken, anything else is the model. */
    private static String adapter(InferenceEngine engine, String model) {
        boolean there = engine.adapters().stream().map(AdapterCard::name).anyMatch(model::equals);
        return there ? model : "";
    }
}
