package dev.starforge.serve.generation;

import dev.starforge.serve.engine.EngineRefusal;
import dev.starforge.serve.http.HttpFailure;
import dev.starforge.serve.metrics.WorkerMetrics;
import dev.starforge.serve.metrics.WorkerMetrics.Outcome;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The texts of one request on their way to vectors. */
public final class Vectors implements Work, AutoCloseable {
    private final CompletableFuture<List<float[]>> result;
    private final WorkerMetrics metrics;
    private final Runnable whenClosed;
    private final long begin = System.nanoTime();
    private final long deadline;

    Vectors(CompletableFuture<List<float[]>> result, Duration timeout, WorkerMetrics metrics, Runnable whenClosed) {
        this.result = result;
        this.metrics = metrics;
        this.whenClosed = whenClosed;
        deadline = begin + timeout.toNanos();
    }

    /** Waits for all of them, as long as a request may take. */
    public List<float[]> await() throws InterruptedException {
        try {
            List<float[]> vectors = result.get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            ended(Outcome.OK, "stop");
            return vectors;
        } catch (TimeoutException late) {
            ended(Outcome.TIMEOUT, "abort");
            throw failure(ErrorCode.TIMEOUT);
        } catch (CancellationException gone) {
            ended(Outcome.CANCELLED, "abort");
            throw failure(ErrorCode.CANCELLED);
        } catch (ExecutionException failed) {
            ended(Outcome.FAILED, "abort");
            throw failed.getCause() instanceof EngineRefusal refusal
                    ? Inference.answer(refusal)
                    : failure(ErrorCode.INFERENCE_FAILED);
        }
    }

    private void ended(Outcome outcome, String reason) {
        metrics.ended(outcome, reason, Duration.ofNanos(System.nanoTime() - begin));
    }

    private static HttpFailure failure(ErrorCode code) {
        return new HttpFailure(code.status(), code.name(), code.message());
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
