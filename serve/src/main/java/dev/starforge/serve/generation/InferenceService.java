package dev.starforge.serve.generation;

import dev.starforge.model.generate.StopStrings;
import dev.starforge.serve.api.FieldViolation;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.engine.EngineStatus;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.http.HttpException;
import dev.starforge.serve.metrics.WorkerMetrics;
import dev.starforge.serve.metrics.WorkerMetrics.RequestOutcome;
import dev.starforge.text.tokenizer.CompletionStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** The engine as requests see it: there or not yet, open or draining; and the runs that are under way. */
public final class InferenceService {
    /** Where a worker is in its life. */
    public enum ServiceState {
        LOADING,
        READY,
        DRAINING,
        /** The engine has stopped by itself. */
        FAILED
    }

    private static final EngineStatus NOTHING = new EngineStatus(true, 0, 0, 0, 0, 0, 0, 0, 0);

    private final Duration timeout;
    private final Set<InFlightWork> runs = ConcurrentHashMap.newKeySet();
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

    /** How much of the model is loaded, 0 to 100. */
    public void progress(int percent) {
        progress = percent;
    }

    public int progress() {
        return progress;
    }

    /** From now on there is an engine. */
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

    /** The engine, if it is loaded, whatever its state. */
    public Optional<InferenceEngine> present() {
        return Optional.ofNullable(engine);
    }

    /** The engine, if it takes requests. */
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

    /** Hands the sequences of a request to the engine: all of them, or none. */
    public ActiveRequest start(InferenceEngine chosen, List<Prompt> prompts) {
        return start(chosen, prompts, timeout);
    }

    public ActiveRequest start(InferenceEngine chosen, List<Prompt> prompts, Duration within) {
        prompts.forEach(prompt -> requireRoom(chosen.card().context(), prompt.request()));
        ActiveRequest[] self = new ActiveRequest[1];
        ActiveRequest run = new ActiveRequest(within, () -> runs.remove(self[0]));
        self[0] = run;
        runs.add(run);
        try {
            for (int i = 0; i < prompts.size(); i++) {
                Prompt prompt = prompts.get(i);
                TokenStream sequence = new TokenStream(
                        i,
                        prompt.request(),
                        new CompletionStream(
                                chosen.card().tokenizer(), prompt.request().text()),
                        new StopStrings(prompt.stops()),
                        prompt.limit().get(),
                        run::happened,
                        metrics);
                sequence.started(chosen.submit(prompt.request(), sequence));
                run.add(sequence);
            }
            return run;
        } catch (EngineException refusal) {
            run.close();
            metrics.refused(RequestOutcome.REJECTED);
            throw answer(refusal);
        } catch (RuntimeException failure) {
            run.close();
            throw failure;
        }
    }

    /** Hands the texts of a request to the engine, to become vectors. */
    public ActiveEmbedding embed(InferenceEngine chosen, List<int[]> texts, String adapter) {
        try {
            InFlightWork[] self = new InFlightWork[1];
            ActiveEmbedding vectors =
                    new ActiveEmbedding(chosen.embed(texts, adapter), timeout, metrics, () -> runs.remove(self[0]));
            self[0] = vectors;
            runs.add(vectors);
            metrics.prompt(texts.stream().mapToInt(text -> text.length).sum());
            return vectors;
        } catch (EngineException refusal) {
            metrics.refused(RequestOutcome.REJECTED);
            throw answer(refusal);
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

    /** What a client is told when the engine does not take its request. */
    public static RuntimeException answer(EngineException refusal) {
        String wait = Long.toString(Math.max(1, refusal.retryAfter().toSeconds()));
        return switch (refusal.kind()) {
            case QUEUE_FULL -> new HttpException(429, "queue_full", refusal.text(), Map.of("Retry-After", wait));
            case NEVER_FITS ->
                new InvalidRequestException(
                        "context_length_exceeded", List.of(new FieldViolation("max_tokens", refusal.text())));
            case UNKNOWN_ADAPTER -> new HttpException(404, "model_not_found", refusal.text());
            case ADAPTER_EXISTS, ADAPTER_UNUSABLE -> new HttpException(400, "invalid_adapter", refusal.text());
            case DEAD -> new HttpException(503, "not_ready", refusal.text(), Map.of("Retry-After", wait));
        };
    }

    /** Waits until no run is left, or for so long; then ends those that are. */
    public void awaitRuns(Duration grace) throws InterruptedException {
        long deadline = System.nanoTime() + grace.toNanos();
        while (!runs.isEmpty() && System.nanoTime() < deadline) {
            Thread.sleep(5);
        }
        runs.forEach(InFlightWork::cancel);
    }
}
