package dev.starforge.serve.generation;

import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.http.HttpException;
import dev.starforge.serve.metrics.WorkerMetrics;
import dev.starforge.serve.metrics.WorkerMetrics.RequestOutcome;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** An embedding request in the engine. */
public final class ActiveEmbedding implements InFlightWork, AutoCloseable {
    private final CompletableFuture<List<float[]>> result;
    private final WorkerMetrics metrics;
    private final Runnable onClose;
    private final long begin = System.nanoTime();
    private final long deadline;

    ActiveEmbedding(
            CompletableFuture<List<float[]>> result, Duration timeout, WorkerMetrics metrics, Runnable onClose) {
        this.result = result;
        this.metrics = metrics;
        this.onClose = onClose;
        deadline = begin + timeout.toNanos();
    }

    /** Waits for the vectors, up to the request timeout. */
    public List<float[]> await() throws InterruptedException {
        try {
            List<float[]> vectors = result.get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            ended(RequestOutcome.OK, "stop");
            return vectors;
        } catch (TimeoutException e) {
            ended(RequestOutcome.TIMEOUT, "abort");
            throw failure(GenerationError.TIMEOUT);
        } catch (CancellationException e) {
            ended(RequestOutcome.CANCELLED, "abort");
            throw failure(GenerationError.CANCELLED);
        } catch (ExecutionException failed) {
            ended(RequestOutcome.FAILED, "abort");
            throw failed.getCause() instanceof EngineException rejection
                    ? InferenceService.toClientError(rejection)
                    : failure(GenerationError.INFERENCE_FAILED);
        }
    }

    private void ended(RequestOutcome outcome, String reason) {
        metrics.ended(outcome, reason, Duration.ofNanos(System.nanoTime() - begin));
    }

    private static HttpException failure(GenerationError error) {
        return new HttpException(error.status(), error.name(), error.message());
    }

    @Override
    public void cancel() {
        result.cancel(true);
    }

    @Override
    public void close() {
        cancel();
        onClose.run();
    }
}
