package dev.starforge.serve.worker;

import dev.starforge.model.generate.SamplingParams;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.engine.AdapterCard;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.engine.StopConditions;
import dev.starforge.serve.generation.ActiveRequest;
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.GenerationWriter;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.PromptFields;
import dev.starforge.serve.generation.SamplingFields;
import dev.starforge.serve.generation.Timings;
import dev.starforge.serve.generation.Usage;
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

/** The worker's native generation API: {@code /execute} streams the events of a job, {@code /cancel} cancels it by its id. */
public final class ExecuteRoutes {
    private static final int MAX_ID_LENGTH = 128;

    private final InferenceService inference;
    private final EventLog log;
    private final Clock clock;
    private final LongSupplier seeds;
    private final Map<String, ActiveRequest> jobs = new ConcurrentHashMap<>();

    /** @param seeds for requests without a seed */
    public ExecuteRoutes(InferenceService inference, EventLog log, Clock clock, LongSupplier seeds) {
        this.inference = inference;
        this.log = log;
        this.clock = clock;
        this.seeds = seeds;
    }

    public List<ApiRoute> routes() {
        return List.of(
                new ApiRoute("POST", "/execute", Api.NATIVE, Execution.GENERATION, this::execute),
                new ApiRoute("POST", "/cancel", Api.NATIVE, Execution.BLOCKING, this::cancel));
    }

    private void execute(Call call) throws IOException, InterruptedException {
        InferenceEngine engine = inference.engine();
        RequestFields fields = call.fields();
        String id = fields.requireString("job_id", MAX_ID_LENGTH);
        GenerationRequest request = request(fields, engine, call.tenant());
        String key = key(call, id);
        try (ActiveRequest active = inference.start(engine, List.of(request))) {
            if (jobs.putIfAbsent(key, active) != null) {
                throw InvalidRequestException.of("job_id", "an id that no running job has");
            }
            try {
                call.releaseBody();
                call.onDisconnect(active::cancel);
                logBegin(call, id, request);
                active.writeTo(new JobWriter(call, id, engine));
            } finally {
                jobs.remove(key, active);
            }
        }
    }

    private GenerationRequest request(RequestFields fields, InferenceEngine engine, String tenant) {
        ModelCard card = engine.card();
        List<int[]> prompts = prompts(fields, card);
        long maxTokens = fields.integer("max_tokens", 1, card.context(), 0);
        if (!fields.has("max_tokens")) {
            fields.violate("max_tokens", "a whole number from 1 to " + card.context());
        }
        SamplingParams sampling = new SamplingFields(fields, SamplingParams.PLAIN)
                .common("repetition_penalty", seeds)
                .sampling();
        List<String> stops = SamplingFields.stops(fields);
        String adapter = fields.string("adapter", card.defaultAdapter());
        if (!adapter.isEmpty()
                && engine.adapters().stream().map(AdapterCard::name).noneMatch(adapter::equals)) {
            fields.violate("adapter", "the name of an adapter that is loaded");
        }
        boolean healing = fields.flag("token_healing", false);
        fields.rejectUnknown();
        fields.check();
        int[] ids = prompts.getFirst();
        return new GenerationRequest(
                healing ? card.tokenizer().heal(ids) : HealedPrompt.asIs(ids),
                sampling,
                new StopConditions((int) maxTokens, Set.of(), false).withStrings(stops),
                GenerationRequest.NO_LOGPROBS,
                adapter,
                tenant);
    }

    /** The prompt; empty if it is invalid. */
    private static List<int[]> prompts(RequestFields fields, ModelCard card) {
        String name = fields.has("prompt") ? "prompt" : "prompt_tokens";
        if (fields.has("prompt") == fields.has("prompt_tokens")) {
            fields.violate("prompt", "either prompt or prompt_tokens");
        } else if (fields.has("prompt") && !fields.node("prompt").isString()) {
            fields.violate("prompt", "a string");
        } else if (fields.has("prompt_tokens")
                && PromptFields.ids(fields.node("prompt_tokens"), card.vocabulary())
                        .isEmpty()) {
            fields.violate("prompt_tokens", "a list of token ids from 0 to " + (card.vocabulary() - 1));
        } else {
            return PromptFields.read(fields, name, card.tokenizer(), card.vocabulary(), 1);
        }
        var _ = PromptFields.encoder(fields, "prompt", card.tokenizer()); // its fields are checked all the same
        return List.of();
    }

    /** Writes the events of a job as server-sent events. */
    private final class JobWriter implements GenerationWriter {
        private final Call call;
        private final String id;
        private final InferenceEngine engine;
        private final Call.Events events;

        JobWriter(Call call, String id, InferenceEngine engine) throws IOException {
            this.call = call;
            this.id = id;
            this.engine = engine;
            events = call.events();
            ObjectNode started = event("started")
                    .put("job_id", id)
                    .put("model", engine.card().id());
            events.send(started.put("started_at", clock.instant().toString()));
        }

        @Override
        public void delta(GenerationEvent.Delta delta) throws IOException {
            events.send(event("token").put("t", delta.text()).put("i", delta.position()));
        }

        @Override
        public void finished(GenerationEvent.Finished finished) throws IOException {
            int tokens = finished.usage().completionTokens();
            events.send(event("metrics")
                    .put("tokens_per_sec", finished.timings().tokensPerSecond(tokens))
                    .put("memory_bytes", engine.status().memoryBytes()));
            ObjectNode end = event("end")
                    .put("tokens_out", tokens)
                    .put("decode_time_ms", finished.timings().decode().toMillis())
                    .put("stop_reason", finished.reason().name());
            if (!finished.stopSequence().isEmpty()) {
                end.put("stop_sequence_matched", finished.stopSequence());
            }
            events.send(end);
            logEnd(LogLevel.INFO, "finished", finished.reason().name(), finished.usage(), finished.timings());
        }

        @Override
        public void failed(GenerationEvent.Failed failed) throws IOException {
            logEnd(LogLevel.WARN, "failed", failed.error().name(), failed.usage(), failed.timings());
            events.send(event("error")
                    .put("code", failed.error().name())
                    .put("message", failed.error().message())
                    .put("retriable", failed.error().retriable()));
        }

        @Override
        public void complete() throws IOException {
            events.finish();
        }

        private void logEnd(LogLevel level, String action, String reason, Usage usage, Timings timings) {
            log.line(level, "worker", action, "job")
                    .with("job_id", id)
                    .with("correlation_id", call.correlation())
                    .with("tokens_in", usage.promptTokens())
                    .with("tokens_out", usage.completionTokens())
                    .with("decode_time_ms", timings.decode().toMillis())
                    .with(
                            "duration_ms",
                            timings.timeToFirstToken().plus(timings.decode()).toMillis())
                    .with("error_kind", level == LogLevel.WARN ? reason : "")
                    .log("a job " + action + " after " + usage.completionTokens() + " tokens: " + reason);
        }
    }

    private static ObjectNode event(String type) {
        return Jackson.object().put("type", type);
    }

    /** Responds with 202 even if there is no such job: it may have ended just now. */
    private void cancel(Call call) throws IOException {
        RequestFields fields = call.fields();
        String id = fields.requireString("job_id", MAX_ID_LENGTH);
        fields.rejectUnknown();
        fields.check();
        ActiveRequest active = jobs.get(key(call, id));
        if (active != null) {
            active.cancel();
        }
        call.respond(202, Jackson.object().put("job_id", id).put("status", "cancelled"));
    }

    /** A tenant can only cancel its own jobs. */
    private static String key(Call call, String id) {
        return call.tenant() + "\n" + id;
    }

    private void logBegin(Call call, String id, GenerationRequest request) {
        int[] ids = request.prompt();
        log.line(LogLevel.INFO, "worker", "execute", "job")
                .with("job_id", id)
                .with("correlation_id", call.correlation())
                .with("tokens_in", ids.length)
                .with("prompt_hash", Hashes.sha256(Arrays.toString(ids)).substring(0, 16))
                .log("a job with " + ids.length + " prompt tokens started");
    }
}
