package dev.starforge.serve.generation;

import dev.starforge.model.generate.StopReason;
import dev.starforge.model.generate.StopStrings;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.SequenceHandle;
import dev.starforge.serve.engine.TokenSink;
import dev.starforge.serve.metrics.WorkerMetrics;
import dev.starforge.serve.metrics.WorkerMetrics.RequestOutcome;
import dev.starforge.text.tokenizer.CompletionStream;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One sequence on its way from the engine to a client: tokens become text, text ends at a stop string. Runs on the engine's
 * thread, so that a sequence ends with the very token that completes a stop string; it takes microseconds and never waits.
 * The first end counts, the engine's or that of a client who cancels; after it nothing more is said.
 */
final class TokenStream implements TokenSink {
    private final int index;
    private final GenerationRequest request;
    private final CompletionStream stream;
    private final StopStrings stops;
    private final OutputLimit limit;
    private final Consumer<GenerationEvent> events;
    private final WorkerMetrics metrics;
    private final long arrived = System.nanoTime();
    private long first;
    private long last;
    private int tokens;
    private boolean ended;
    private @Nullable SequenceHandle job;

    TokenStream(
            int index,
            GenerationRequest request,
            CompletionStream stream,
            StopStrings stops,
            OutputLimit limit,
            Consumer<GenerationEvent> events,
            WorkerMetrics metrics) {
        this.index = index;
        this.request = request;
        this.stream = stream;
        this.stops = stops;
        this.limit = limit;
        this.events = events;
        this.metrics = metrics;
    }

    /** The engine has taken it in. */
    void started(SequenceHandle taken) {
        metrics.prompt(request.prompt().length);
        boolean late;
        synchronized (this) {
            job = taken;
            late = ended;
        }
        if (late) {
            taken.cancel();
        }
    }

    @Override
    public synchronized boolean token(GeneratedToken token) {
        if (ended) {
            return false;
        }
        long now = System.nanoTime();
        if (tokens == 0) {
            first = now;
            metrics.firstToken(Duration.ofNanos(now - arrived));
        } else {
            metrics.nextToken(Duration.ofNanos(now - last));
        }
        last = now;
        tokens++;
        String text = limit.pass(stops.push(stream.push(token.id())));
        events.accept(new GenerationEvent.Delta(index, text, tokens - 1, List.of(token)));
        return stops.matched().isEmpty() && !limit.isReached();
    }

    @Override
    public synchronized void end(FinishReason ending) {
        if (ended) {
            return;
        }
        switch (ending) {
            case FinishReason.Completed finished -> finish(finished);
            case FinishReason.Cancelled _ -> fail(GenerationError.CANCELLED);
            case FinishReason.EngineFailed failed ->
                fail(
                        switch (failed.kind()) {
                            case OUT_OF_MEMORY -> GenerationError.OUT_OF_MEMORY;
                            case INFERENCE_FAILED -> GenerationError.INFERENCE_FAILED;
                        });
        }
    }

    private void finish(FinishReason.Completed finished) {
        if (stops.matched().isEmpty() && !limit.isReached()) {
            String rest = limit.pass(stops.push(stream.finish()));
            rest = stops.matched().isEmpty() ? rest + limit.pass(stops.finish()) : rest;
            if (!rest.isEmpty()) {
                events.accept(new GenerationEvent.Delta(index, rest, tokens - 1, List.of()));
            }
        }
        String stopSequence = stops.matched().orElse("");
        StopReason reason = !stopSequence.isEmpty()
                ? StopReason.STOP_SEQUENCE
                : limit.isReached() ? StopReason.MAX_TOKENS : finished.reason();
        ended = true;
        metrics.ended(
                RequestOutcome.OK,
                reason == StopReason.MAX_TOKENS ? "length" : "stop",
                Duration.ofNanos(System.nanoTime() - arrived));
        events.accept(new GenerationEvent.Finished(index, reason, stopSequence, tally(finished.cachedTokens())));
    }

    /** Ends it from outside, at once; the engine, which may hold a lock of its own meanwhile, follows after its step. */
    void abort(GenerationError code) {
        SequenceHandle taken;
        synchronized (this) {
            if (!ended) {
                fail(code);
            }
            taken = job;
        }
        if (taken != null) {
            taken.cancel();
        }
    }

    private void fail(GenerationError code) {
        ended = true;
        RequestOutcome outcome = switch (code) {
            case CANCELLED -> RequestOutcome.CANCELLED;
            case TIMEOUT -> RequestOutcome.TIMEOUT;
            case OUT_OF_MEMORY -> RequestOutcome.OUT_OF_MEMORY;
            case INFERENCE_FAILED -> RequestOutcome.FAILED;
        };
        metrics.ended(outcome, "abort", Duration.ofNanos(System.nanoTime() - arrived));
        events.accept(new GenerationEvent.Failed(index, code, tally(0)));
    }

    private Tally tally(int cached) {
        long firstAt = tokens == 0 ? System.nanoTime() : first;
        return new Tally(
                request.prompt().length,
                cached,
                tokens,
                Duration.ofNanos(firstAt - arrived),
                Duration.ofNanos(tokens == 0 ? 0 : last - first));
    }
}
