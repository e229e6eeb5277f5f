package dev.starforge.data.dataset.io;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Maps items with several threads and passes the results to a sink in the order of the items, so that output does not depend
 * on the number of threads. Only a few results wait for their turn.
 */
public final class ParallelMap {
    private static final int RESULTS_PER_THREAD = 3;
    private static final int MIN_LENGTH = 4;

    private ParallelMap() {}

    /** The mapping function of one thread, which may keep state. */
    public interface BatchWorker<T, R> extends AutoCloseable {
        R apply(T item);

        @Override
        default void close() {}
    }

    /**
     * Cuts items into batches of consecutive items, since each leaves cached data that the next needs: a pack stores a
     * version of a file as a delta to another, so threads that alternate would both unpack everything. Batches get shorter
     * towards the end, so that the threads finish together.
     *
     * @param maxLength bounds the results that wait for their turn
     */
    public static <T> Iterable<List<T>> batches(List<T> items, int threads, int maxLength) {
        List<List<T>> batches = new ArrayList<>();
        for (int from = 0; from < items.size(); ) {
            int left = items.size() - from;
            int length = Math.clamp(left / (2 * threads), Math.min(left, MIN_LENGTH), maxLength);
            batches.add(items.subList(from, from + length));
            from += length;
        }
        return batches;
    }

    public static <T, R> void run(
            Iterable<T> items, int threads, Supplier<? extends BatchWorker<T, R>> workers, Consumer<R> sink) {
        Queue<BatchWorker<T, R>> idle = new ConcurrentLinkedQueue<>();
        ArrayDeque<Future<R>> waiting = new ArrayDeque<>();
        try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
            try {
                for (T item : items) {
                    waiting.add(pool.submit(() -> {
                        BatchWorker<T, R> polled = idle.poll();
                        BatchWorker<T, R> worker = polled != null ? polled : workers.get();
                        try {
                            return worker.apply(item);
                        } finally {
                            idle.add(worker);
                        }
                    }));
                    if (waiting.size() > RESULTS_PER_THREAD * threads) {
                        sink.accept(result(waiting.poll()));
                    }
                }
                while (!waiting.isEmpty()) {
                    sink.accept(result(waiting.poll()));
                }
            } catch (RuntimeException | Error failure) {
                pool.shutdownNow();
                throw failure;
            }
        } finally {
            idle.forEach(BatchWorker::close);
        }
    }

    /** Throws if another worker has failed; workers call it between the parts of a long item. */
    public static void checkCancelled() {
        if (Thread.currentThread().isInterrupted()) {
            throw new CancellationException("another worker failed");
        }
    }

    private static <R> R result(Future<R> future) {
        try {
            return future.get();
        } catch (ExecutionException failure) {
            switch (failure.getCause()) {
                case RuntimeException cause -> throw cause;
                case Error cause -> throw cause;
                case null, default -> throw new IllegalStateException(failure.getCause());
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", interrupted);
        }
    }
}
