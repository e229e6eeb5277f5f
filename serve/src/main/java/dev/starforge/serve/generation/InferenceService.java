package dev.starforge.serve.generation;

import dev.starforge.serve.api.FieldViolation;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.engine.EngineStatus;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.http.HttpException;
import dev.starforge.serve.metrics.WorkerMetrics;
import dev.starforge.serve.metrics.WorkerMetrics.RequestOutcome;
import dev.starforge.text.tokenizer.CompletionDecodeStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** Gives requests access to the engine while it is ready, and tracks the requests in flight. */
public final class InferenceService {
    public enum ServiceState {
        LOADING,
        READY,
        DRAINING,
        /** The engine has stopped after a failure. */
        FAILED
    }

    private static final EngineStatus NOTHING = new EngineStatus(true, 0, 0, 0, 0, 0, 0, 0, 0);

    private final Duration timeout;
    private final Set<InFlightWork> inFlight = ConcurrentHashMap.newKeySet();
    private final WorkerMetrics metrics;
    private volatile @Nullable InferenceEngine engine;
    private volatile boolean draining;
    private volatile int progress;

    public InferenceService(String model, Duration timeout, Supplier<Duration> uptime) {
        this.timeout = timeout;
        metrics = new WorkerMetrics(model, this::status, uptime);
    }

    public WorkerMetrics metrics() {
        return metrics;
    }

    /** Sets the loading progress in percent. */
    public void progress(int percent) {
        progress = percent;
    }

    public int progress() {
        return progress;
    }

    /** Sets the engine once the model is loaded. */
    public void open(InferenceEngine opened) {
        progress = 100;
        engine = opened;
    }

    public void drain() {
        draining = true;
    }

    public ServiceState state() {
        InferenceEngine present = engine;
        if (draining) {
            return ServiceState.DRAINING;
        }
        if (present == null) {
            return ServiceState.LOADING;
        }
        return present.status().alive() ? ServiceState.READY : ServiceState.FAILED;
    }

    public EngineStatus status() {
        InferenceEngine present = engine;
        return present == null ? NOTHING : present.status();
    }

    /** The engine, if it is loaded, in any state. */
    public Optional<InferenceEngine> present() {
        return Optional.ofNullable(engine);
    }

    /** The engine; fails with 503 unless it is ready. */
    public InferenceEngine engine() {
        InferenceEngine present = engine;
        ServiceState state = state();
        if (present == null || state != ServiceState.READY) {
            metrics.refused(RequestOutcome.REJECTED);
            String why = switch (state) {
                case LOADING, READY -> "the model is still loading";
                case DRAINING -> "the worker is shutting down";
                case FAILED -> "the engine has stopped";
            };
            throw new HttpException(503, "not_ready", why, Map.of("Retry-After", "5"));
        }
        return present;
    }

    /** Submits the sequences of a request: all of them, or none. */
    public ActiveRequest start(InferenceEngine chosen, List<GenerationRequest> requests) {
        return start(chosen, requests, timeout);
    }

    public ActiveRequest start(InferenceEngine chosen, List<GenerationRequest> requests, Duration within) {
        requests.forEach(request -> requireRoom(chosen.card().context(), request));
        ActiveRequest[] self = new ActiveRequest[1];
        ActiveRequest active = new ActiveRequest(within, () -> inFlight.remove(self[0]));
        self[0] = active;
        inFlight.add(active);
        try {
            for (int i = 0; i < requests.size(); i++) {
                GenerationRequest request = requests.get(i);
                CompletionDecodeStream detokenizer =
                        new CompletionDecodeStream(chosen.card().tokenizer(), request.healedPrompt());
                TokenStream stream = new TokenStream(i, request, detokenizer, active::publish, metrics);
                stream.started(chosen.submit(request, stream));
                active.add(stream);
            }
            return active;
        } catch (EngineException e) {
            active.close();
            metrics.refused(RequestOutcome.REJECTED);
            throw toClientError(e);
        } catch (RuntimeException e) {
            active.close();
            throw e;
        }
    }

    /** Submits the inputs of an embedding request. */
    public ActiveEmbedding embed(InferenceEngine chosen, List<int[]> inputs, String adapter) {
        try {
            InFlightWork[] self = new InFlightWork[1];
            ActiveEmbedding embedding = new ActiveEmbedding(
                    chosen.embed(inputs, adapter), timeout, metrics, () -> inFlight.remove(self[0]));
            self[0] = embedding;
            inFlight.add(embedding);
            metrics.prompt(inputs.stream().mapToInt(input -> input.length).sum());
            return embedding;
        } catch (EngineException e) {
            metrics.refused(RequestOutcome.REJECTED);
            throw toClientError(e);
        }
    }

    private static void requireRoom(int context, GenerationRequest request) {
        if (request.prompt().length + request.maxTokens() > context) {
            throw new InvalidRequestException(
                    "context_length_exceeded",
                    List.of(new FieldViolation(
                            "max_tokens",
                            "prompt and max_tokens to fit the context of " + context + " tokens, but these are "
                                    + request.prompt().length + " and " + request.maxTokens())));
        }
    }

    /** The error response for a request that the engine rejected. */
    public static RuntimeException toClientError(EngineException rejection) {
        String wait = Long.toString(Math.max(1, rejection.retryAfter().toSeconds()));
        return switch (rejection.kind()) {
            case QUEUE_FULL -> new HttpException(429, "queue_full", rejection.text(), Map.of("Retry-After", wait));
            case NEVER_FITS ->
                new InvalidRequestException(
                        "context_length_exceeded", List.of(new FieldViolation("max_tokens", rejection.text())));
            case UNKNOWN_ADAPTER -> new HttpException(404, "model_not_found", rejection.text());
            case ADAPTER_EXISTS, ADAPTER_UNUSABLE -> new HttpException(400, "invalid_adapter", rejection.text());
            case DEAD -> new HttpException(503, "not_ready", rejection.text(), Map.of("Retry-After", wait));
        };
    }

    /** Waits until no request is in flight, for at most {@code grace}; then cancels the others. */
    public void awaitInFlight(Duration grace) throws InterruptedException {
        long deadline = System.nanoTime() + grace.toNanos();
        while (!inFlight.isEmpty() && System.nanoTime() < deadline) {
            Thread.sleep(5);
        }
        inFlight.forEach(InFlightWork::cancel);
    }
}
