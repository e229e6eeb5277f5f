package dev.starforge.serve.pool.api;

import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;

/** Passes texts on to whoever listens. Telling never waits: a listener that does not keep up misses the oldest. */
final class EventHub {
    private static final int WAITING = 256;

    private final List<BlockingQueue<String>> listeners = new CopyOnWriteArrayList<>();

    BlockingQueue<String> subscribe() {
        BlockingQueue<String> queue = new ArrayBlockingQueue<>(WAITING);
        listeners.add(queue);
        return queue;
    }

    void unsubscribe(BlockingQueue<String> queue) {
        listeners.removeIf(each -> each == queue);
    }

    void publish(String text) {
        for (BlockingQueue<String> queue : listeners) {
            while (!queue.offer(text)) {
                queue.poll();
            }
        }
    }

    int listeners() {
        return listeners.size();
    }
}
