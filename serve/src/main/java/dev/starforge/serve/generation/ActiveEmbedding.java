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

/** The texts of one request on their way to vectors. */
public final class ActiveEmbedding implements InFlightWork, AutoCloseable {
    private final CompletableFuture<List<float[]>> result;
    private final WorkerMetrics metrics;
    private final Runnable whenClosed;
    private final long begin = System.nanoTime();
    private final long deadline;

    ActiveEmbedding(
            CompletableFuture<List<float[]>> result, Duration timeout, WorkerMetrics metrics, Runnable whenClosed) {
        this.result = result;
        this.metrics = metrics;
        this.whenClosed = whenClosed;
        deadline = begin + timeout.toNanos();
    }

    /** Waits for all of them, as long as a request may take. */
    public List<float[]> await() throws InterruptedException {
        try {
            List<float[]> vectors = result.get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            ended(RequestOutcome.OK, "stop");
            return vectors;
        } catch (TimeoutException late) {
            ended(RequestOutcome.TIMEOUT, "abort");
            throw failure(GenerationError.TIMEOUT);
        } catch (CancellationException gone) {
            ended(RequestOutcome.CANCELLED, "abort");
            throw failure(GenerationError.CANCELLED);
        } catch (ExecutionException failed) {
            ended(RequestOutcome.FAILED, "abort");
            throw failed.getCause() instanceof EngineException refusal
                    ? InferenceService.answer(refusal)
                    : failure(GenerationError.INFERENCE_FAILED);
        }
    }

    private void ended(RequestOutcome outcome, String reason) {
        metrics.ended(outcome, reason, Duration.ofNanos(System.nanoTime() - begin));
    }

    private static HttpException failure(GenerationError code) {
        return new HttpException(code.status(), code.name(), code.message());
    }

    @Override
    public void cancel() {
        result.cancel(true);
    }

    @Override
    public void close() {
        cancel();
        whenClosed.run();
    }
}
