package dev.starforge.serve.worker;

import dev.starforge.model.generate.SamplingParams;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Auth;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.api.StartSecret;
import dev.starforge.serve.engine.AdapterCard;
import dev.starforge.serve.engine.EngineStatus;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.engine.ModelCard;
import dev.starforge.serve.engine.ToolFormat;
import dev.starforge.serve.generation.ActiveRequest;
import dev.starforge.serve.generation.GenerationEvent;
import dev.starforge.serve.generation.GenerationWriter;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.generation.InferenceService.ServiceState;
import dev.starforge.serve.http.HttpException;
import dev.starforge.serve.metrics.WorkerMetrics;
import dev.starforge.text.fim.FimMarkers;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.IntSupplier;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Health, readiness, metrics and shutdown of a worker. Only {@code /health/deep} waits for the model. */
public final class LifecycleRoutes {
    private static final Duration CANARY_TIMEOUT = Duration.ofSeconds(10);

    private static final Pattern NONCE = Pattern.compile("nonce=([0-9a-f]{32})");

    private final String id;
    private final Optional<StartSecret> secret;
    private final IntSupplier port;
    private final InferenceService inference;
    private final Supplier<Duration> uptime;
    private final Runnable shutdown;

    /**
     * @param secret of the pool that started the worker
     * @param port on which the worker listens
     * @param shutdown starts to drain the worker and returns
     */
    public LifecycleRoutes(
            String id,
            Optional<StartSecret> secret,
            IntSupplier port,
            InferenceService inference,
            Supplier<Duration> uptime,
            Runnable shutdown) {
        this.id = id;
        this.secret = secret;
        this.port = port;
        this.inference = inference;
        this.uptime = uptime;
        this.shutdown = shutdown;
    }

    public List<ApiRoute> routes() {
        return List.of(
                new ApiRoute("GET", "/health", Api.NATIVE, Execution.INLINE, Auth.PUBLIC, this::health),
                new ApiRoute("GET", "/health/deep", Api.NATIVE, Execution.BLOCKING, this::deep),
                new ApiRoute("GET", "/ready", Api.NATIVE, Execution.INLINE, this::ready),
                new ApiRoute("GET", "/metrics", Api.NATIVE, Execution.INLINE, this::metrics),
                new ApiRoute("POST", "/shutdown", Api.NATIVE, Execution.BLOCKING, Auth.ADMIN, this::shutdown));
    }

    private static String word(ServiceState state) {
        return switch (state) {
            case LOADING -> "loading";
            case READY -> "ok"; // what clients of llama-server look for
            case DRAINING -> "draining";
            case FAILED -> "failed";
        };
    }

    private void health(Call call) throws IOException {
        ServiceState state = inference.state();
        EngineStatus status = inference.status();
        ObjectNode body = Jackson.object();
        body.put("status", word(state));
        body.put("worker_id", id);
        body.put("progress", inference.progress());
        body.put("uptime_seconds", uptime.get().toSeconds());
        inference.present().ifPresent(engine -> describe(engine, body));
        body.put("memory_bytes", status.memoryBytes());
        body.put("free_slots", status.freeSlots());
        body.put("running", status.running());
        body.put("waiting", status.waiting());
        body.put("kv_usage", status.kvUsage());
        body.put("tokens_generated", inference.metrics().tokensGenerated());
        prove(call, body);
        call.respond(200, body);
    }

    /** Answers the challenge of the pool that started the worker, so that no other program can take the worker's place. */
    private void prove(Call call, ObjectNode body) {
        Matcher challenge = NONCE.matcher(call.head().query());
        if (secret.isPresent() && challenge.matches()) {
            body.put("proof", secret.get().proof(challenge.group(1), port.getAsInt()));
        }
    }

    private static void describe(InferenceEngine engine, ObjectNode body) {
        ModelCard card = engine.card();
        body.put("model", card.id());
        card.names().forEach(body.putArray("models")::add);
        body.put("architecture", card.architecture());
        body.put("quantization", card.quantization());
        body.put("vocabulary", card.vocabulary());
        body.put("context", card.context());
        body.put("device", card.device());
        ArrayNode capabilities = body.putArray("capabilities");
        capabilities.add("completion").add("embedding");
        if (engine.takesAdapters()) {
            capabilities.add("lora");
        }
        if (FimMarkers.of(card.tokenizer()).isPresent()) {
            capabilities.add("infill");
        }
        if (card.chatTemplate().isPresent()) {
            capabilities.add("chat");
        }
        if (card.toolFormat() != ToolFormat.NONE) {
            capabilities.add("tools");
        }
        ArrayNode adapters = body.putArray("adapters");
        engine.adapters().stream().map(AdapterCard::name).forEach(adapters::add);
    }

    private void ready(Call call) throws IOException {
        ServiceState state = inference.state();
        call.respond(state == ServiceState.READY ? 200 : 503, Jackson.object().put("status", word(state)));
    }

    /** Generates one token, so that a worker whose engine has stopped is not reported as healthy. */
    private void deep(Call call) throws IOException, InterruptedException {
        InferenceEngine engine = inference.engine();
        int[] prompt = engine.card().tokenizer().encode("a", true);
        GenerationRequest request = new GenerationRequest(
                prompt, 1, SamplingParams.GREEDY, Set.of(), GenerationRequest.NO_LOGPROBS, "", call.tenant());
        long begin = System.nanoTime();
        try (ActiveRequest active = inference.start(engine, List.of(request), CANARY_TIMEOUT)) {
            call.onDisconnect(active::cancel);
            active.writeTo(new CanaryWriter());
        }
        long millis = (System.nanoTime() - begin) / 1_000_000;
        call.respond(200, Jackson.object().put("status", "ok").put("canary_ms", millis));
    }

    /** Discards the token; only a failure matters. */
    private static final class CanaryWriter implements GenerationWriter {
        @Override
        public void delta(GenerationEvent.Delta delta) {}

        @Override
        public void finished(GenerationEvent.Finished finished) {}

        @Override
        public void failed(GenerationEvent.Failed failed) {
            throw new HttpException(
                    503, failed.error().name(), "no token: " + failed.error().message());
        }

        @Override
        public void complete() {}
    }

    private void metrics(Call call) throws IOException {
        byte[] text = inference.metrics().text().getBytes(StandardCharsets.UTF_8);
        call.respond(200, WorkerMetrics.CONTENT_TYPE, text);
    }

    private void shutdown(Call call) throws IOException {
        shutdown.run();
        call.respond(202, Jackson.object().put("status", word(ServiceState.DRAINING)));
    }
}
