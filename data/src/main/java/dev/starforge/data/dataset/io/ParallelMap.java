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
 * Work on many items by several threads whose results come back one by one, in the items' order: so output does not
 * depend on the number of threads, and no more than a few results wait.
 */
public final class ParallelMap {
    private static final int AHEAD = 3;
    private static final int SHORTEST = 4;

    private ParallelMap() {}

    /** What one thread works with; made once for each. */
    public interface BatchWorker<T, R> extends AutoCloseable {
        R apply(T item);

        @Override
        default void close() {}
    }

    /**
     * Runs of neighbours, for items of which one leaves much behind that the next needs: a version of a file in a pack is
     * what changed since the one before, so two threads that take turns would both unpack everything. Long runs first,
     * shorter ones towards the end, so that the threads finish together.
     *
     * @param longest bounds what waits for its turn
     */
    public static <T> Iterable<List<T>> runs(List<T> items, int threads, int longest) {
        List<List<T>> runs = new ArrayList<>();
        for (int from = 0; from < items.size(); ) {
            int left = items.size() - from;
            int length = Math.clamp(left / (2 * threads), Math.min(left, SHORTEST), longest);
            runs.add(items.subList(from, from + length));
            from += length;
        }
        return runs;
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
                    if (waiting.size() > AHEAD * threads) {
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

    /** For workers, between the parts of a long item: ends the work if another's has failed. */
    public static void goOn() {
        if (Thread.currentThread().isInterrupted()) {
            throw new CancellationException("other work failed");
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
