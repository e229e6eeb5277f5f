package dev.starforge.serve.worker;

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
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.Prompt;
import dev.starforge.serve.generation.PromptFields;
import dev.starforge.serve.generation.SamplingFields;
import dev.starforge.serve.generation.Tally;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.log.EventLog.LogLevel;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.HealedPrompt;
import java.io.IOException;
import java.time.Clock;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import tools.jackson.databind.node.ObjectNode;

/** The worker's own API for text: a job is executed as a stream of events, and can be cancelled by its id. */
public final class ExecuteRoutes {
    private static final int LONGEST_ID = 128;

    private final InferenceService inference;
    private final EventLog log;
    private final Clock clock;
    private final LongSupplier seeds;
    private final Map<String, ActiveRequest> jobs = new ConcurrentHashMap<>();

    /** @param seeds for requests that bring none */
    public ExecuteRoutes(InferenceService inference, EventLog log, Clock clock, LongSupplier seeds) {
        this.inference = inference;
        this.log = log;
        this.clock = clock;
        this.seeds = seeds;
    }

    public List<ApiRoute> routes() {
        return List.of(
                new ApiRoute("POST", "/execute", Api.NATIVE, Weight.WORK, this::execute),
                new ApiRoute("POST", "/cancel", Api.NATIVE, Weight.CONTROL, this::cancel));
    }

    private void execute(Call call) throws IOException, InterruptedException {
        InferenceEngine engine = inference.engine();
        RequestFields fields = call.fields();
        String id = fields.requireString("job_id", LONGEST_ID);
        Prompt prompt = prompt(fields, engine, call.tenant());
        String key = key(call, id);
        try (ActiveRequest run = inference.start(engine, List.of(prompt))) {
            if (jobs.putIfAbsent(key, run) != null) {
                throw InvalidRequestException.of("job_id", "an id that no running job has");
            }
            try {
                call.onDisconnect(run::cancel);
                narrate(call, id, prompt);
                stream(call, id, engine, run);
            } finally {
                jobs.remove(key, run);
            }
        }
    }

    private Prompt prompt(RequestFields fields, InferenceEngine engine, String tenant) {
        ModelCard card = engine.card();
        if (fields.has("prompt") == fields.has("prompt_tokens")) {
            fields.violate("prompt", "either prompt or prompt_tokens");
        } else if (fields.has("prompt") && !fields.node("prompt").isString()) {
            fields.violate("prompt", "a string");
        } else if (fields.has("prompt_tokens")
                && PromptFields.ids(fields.node("prompt_tokens"), card.vocabulary())
                        .isEmpty()) {
            fields.violate("prompt_tokens", "a list of token ids from 0 to " + (card.vocabulary() - 1));
        }
        long maxTokens = fields.integer("max_tokens", 1, card.context(), 0);
        if (!fields.has("max_tokens")) {
            fields.violate("max_tokens", "a whole number from 1 to " + card.context());
        }
        SamplingParams sampling = new SamplingFields(fields, SamplingParams.PLAIN)
                .common("repetition_penalty", seeds)
                .sampling();
        List<String> stops = SamplingFields.stops(fields);
        String adapter = fields.string("adapter", "");
        if (!adapter.isEmpty()
                && engine.adapters().stream().map(AdapterCard::name).noneMatch(adapter::equals)) {
            fields.violate("adapter", "the name of an adapter that is loaded");
        }
        boolean heals = fields.flag("token_healing", false);
        fields.rejectUnknown();
        fields.check();
        String name = fields.has("prompt") ? "prompt" : "prompt_tokens";
        List<int[]> prompts = PromptFields.read(fields, name, card.tokenizer(), card.vocabulary(), 1);
        fields.check();
        int[] ids = prompts.getFirst();
        return new Prompt(
                new GenerationRequest(
                        heals ? card.tokenizer().heal(ids) : HealedPrompt.asIs(ids),
                        (int) maxTokens,
                        sampling,
                        Set.of(),
                        false,
                        GenerationRequest.NO_LOGPROBS,
                        adapter,
                        tenant),
                stops);
    }

    private void stream(Call call, String id, InferenceEngine engine, ActiveRequest run)
            throws IOException, InterruptedException {
        Call.Events events = call.events();
        ObjectNode started =
                event("started").put("job_id", id).put("model", engine.card().id());
        events.send(started.put("started_at", clock.instant().toString()));
        while (true) {
            switch (run.next()) {
                case GenerationEvent.Delta piece ->
                    events.send(event("token").put("t", piece.text()).put("i", piece.position()));
                case GenerationEvent.Finished finished -> {
                    events.send(event("metrics")
                            .put("tokens_per_sec", finished.tally().tokensPerSecond())
                            .put("memory_bytes", engine.status().memoryBytes()));
                    ObjectNode end = event("end")
                            .put("tokens_out", finished.tally().tokens())
                            .put("decode_time_ms", finished.tally().decode().toMillis())
                            .put("stop_reason", finished.reason().name());
                    if (!finished.stopSequence().isEmpty()) {
                        end.put("stop_sequence_matched", finished.stopSequence());
                    }
                    events.send(end);
                    events.finish();
                    narrate(call, id, "finished", finished.reason().name(), finished.tally());
                    return;
                }
                case GenerationEvent.Failed failed -> {
                    narrate(call, id, "failed", failed.code().name(), failed.tally());
                    events.send(event("error")
                            .put("code", failed.code().name())
                            .put("message", failed.code().message())
                            .put("retriable", failed.code().retriable()));
                    events.finish();
                    return;
                }
            }
        }
    }

    private static ObjectNode event(String type) {
        return Jackson.object().put("type", type);
    }

    /** Answers the same whether there is such a job: it may just have ended. */
    private void cancel(Call call) throws IOException {
        RequestFields fields = call.fields();
        String id = fields.requireString("job_id", LONGEST_ID);
        fields.rejectUnknown();
        fields.check();
        ActiveRequest run = jobs.get(key(call, id));
        if (run != null) {
            run.cancel();
        }
        call.respond(202, Jackson.object().put("job_id", id).put("status", "cancelled"));
    }

    /** A job can be cancelled by the one whose job it is. */
    private static String key(Call call, String id) {
        return call.tenant() + "\n" + id;
    }

    private void narrate(Call call, String id, Prompt prompt) {
        int[] ids = prompt.request().prompt();
        log.line(LogLevel.INFO, "worker", "execute", "job")
                .with("job_id", id)
                .with("correlation_id", call.correlation())
                .with("tokens_in", ids.length)
                .with("prompt_hash", Hashes.sha256(Arrays.toString(ids)).substring(0, 16))
                .log("a job of " + ids.length + " prompt tokens has begun");
    }

    private void narrate(Call call, String id, String action, String how, Tally tally) {
        log.line(action.equals("failed") ? LogLevel.WARN : LogLevel.INFO, "worker", action, "job")
                .with("job_id", id)
                .with("correlation_id", call.correlation())
                .with("tokens_in", tally.promptTokens())
                .with("tokens_out", tally.tokens())
                .with("decode_time_ms", tally.decode().toMillis())
                .with("duration_ms", tally.toFirst().plus(tally.decode()).toMillis())
                .with("error_kind", action.equals("failed") ? how : "")
                .log("a job has " + action + " after " + tally.tokens() + " tokens: " + how);
    }
}
