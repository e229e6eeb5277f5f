package dev.starforge.serve.generation;

import dev.starforge.model.generate.StopReason;
import dev.starforge.model.generate.StopStrings;
import dev.starforge.serve.engine.FinishReason;
import dev.starforge.serve.engine.GeneratedToken;
import dev.starforge.serve.engine.GenerationRequest;
import dev.starforge.serve.engine.OutputLimit;
import dev.starforge.serve.engine.SequenceHandle;
import dev.starforge.serve.engine.TokenSink;
import dev.starforge.serve.metrics.WorkerMetrics;
import dev.starforge.serve.metrics.WorkerMetrics.RequestOutcome;
import dev.starforge.text.tokenizer.CompletionDecodeStream;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Detokenizes one sequence, matches stop strings and publishes events. Runs on the engine's thread, so that generation stops with
 * the token that completes a stop string; takes microseconds and never blocks. The sequence ends once, by the engine or by a
 * cancellation; nothing is published afterwards.
 */
final class TokenStream implements TokenSink {
    private final int index;
    private final GenerationRequest request;
    private final CompletionDecodeStream detokenizer;
    private final StopStrings stops;
    private final OutputLimit limit;
    private final Consumer<GenerationEvent> events;
    private final WorkerMetrics metrics;
    private final long arrived = System.nanoTime();
    private long first;
    private long last;
    private int tokens;
    private boolean ended;
    private @Nullable SequenceHandle handle;

    TokenStream(
            int index,
            GenerationRequest request,
            CompletionDecodeStream detokenizer,
            Consumer<GenerationEvent> events,
            WorkerMetrics metrics) {
        this.index = index;
        this.request = request;
        this.detokenizer = detokenizer;
        this.events = events;
        this.metrics = metrics;
        stops = new StopStrings(request.stop().strings(), request.stop().firstLineStrings());
        limit = request.stop().outputLimit().get();
    }

    /** Called when the engine has accepted the sequence. */
    void started(SequenceHandle submitted) {
        metrics.prompt(request.prompt().length);
        boolean cancelled;
        synchronized (this) {
            handle = submitted;
            cancelled = ended;
        }
        if (cancelled) {
            submitted.cancel();
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
        String text = limit.pass(stops.push(detokenizer.push(token.id())));
        events.accept(new GenerationEvent.Delta(index, text, tokens - 1, List.of(token)));
        return stops.matched().isEmpty() && !limit.isReached();
    }

    @Override
    public synchronized void end(FinishReason finish) {
        if (ended) {
            return;
        }
        switch (finish) {
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
            String rest = limit.pass(stops.push(detokenizer.finish()));
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
        events.accept(
                new GenerationEvent.Finished(index, reason, stopSequence, usage(finished.cachedTokens()), timings()));
    }

    /** Fails the sequence at once; the engine releases it after the current step. */
    void abort(GenerationError error) {
        SequenceHandle submitted;
        synchronized (this) {
            if (!ended) {
                fail(error);
            }
            submitted = handle;
        }
        if (submitted != null) {
            submitted.cancel();
        }
    }

    private void fail(GenerationError error) {
        ended = true;
        RequestOutcome outcome = switch (error) {
            case CANCELLED -> RequestOutcome.CANCELLED;
            case TIMEOUT -> RequestOutcome.TIMEOUT;
            case OUT_OF_MEMORY -> RequestOutcome.OUT_OF_MEMORY;
            case INFERENCE_FAILED -> RequestOutcome.FAILED;
        };
        metrics.ended(outcome, "abort", Duration.ofNanos(System.nanoTime() - arrived));
        events.accept(new GenerationEvent.Failed(index, error, usage(0), timings()));
    }

    private Usage usage(int cachedTokens) {
        return new Usage(request.prompt().length, cachedTokens, tokens);
    }

    private Timings timings() {
        long firstAt = tokens == 0 ? System.nanoTime() : first;
        return new Timings(Duration.ofNanos(firstAt - arrived), Duration.ofNanos(tokens == 0 ? 0 : last - first));
    }
}
