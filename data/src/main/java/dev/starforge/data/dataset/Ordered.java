package dev.starforge.data.dataset;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Work on many items by several threads whose results come back one by one, in the items' order: so output does not
 * depend on the number of threads, and no more than a few results wait in memory.
 */
final class Ordered {
    /** Neighbours share much of what they read, so a thread takes several at once. */
    private static final int BATCH = 16;

    private static final int AHEAD = 3;

    private Ordered() {}

    /** What one thread works with; made once for each. */
    interface Worker<T, R> extends AutoCloseable {
        R apply(T item);

        @Override
        default void close() {}
    }

    static <T, R> void run(Iterable<T> items, int threads, Supplier<? extends Worker<T, R>> workers, Consumer<R> sink) {
        Queue<Worker<T, R>> idle = new ConcurrentLinkedQueue<>();
        ArrayDeque<Future<List<R>>> waiting = new ArrayDeque<>();
        try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
            try {
                Iterator<T> all = items.iterator();
                while (all.hasNext()) {
                    List<T> batch = new ArrayList<>(BATCH);
                    while (batch.size() < BATCH && all.hasNext()) {
                        batch.add(all.next());
                    }
                    waiting.add(pool.submit(() -> {
                        Worker<T, R> polled = idle.poll();
                        Worker<T, R> worker = polled != null ? polled : workers.get();
                        try {
                            return batch.stream().map(worker::apply).toList();
                        } finally {
                            idle.add(worker);
                        }
                    }));
                    if (waiting.size() > AHEAD * threads) {
                        result(waiting.poll()).forEach(sink);
                    }
                }
                while (!waiting.isEmpty()) {
                    result(waiting.poll()).forEach(sink);
                }
            } catch (RuntimeException | Error failure) {
                pool.shutdownNow();
                throw failure;
            }
        } finally {
            idle.forEach(Worker::close);
        }
    }

    private static <R> R result(Future<R> future) {
        try {
            return future.get();
        } catch (ExecutionException failure) {
            switch (failure.getCause()) {
                case RuntimeException cause -> throw cause;
                case Error cause -> throw cause;
                default -> throw new IllegalStateException(failure.getCause());
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", interrupted);
        }
    }
}
