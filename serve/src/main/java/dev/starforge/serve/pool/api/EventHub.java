package dev.starforge.serve.pool.api;

import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;

/** Publishes events to subscribers. Never blocks: a slow subscriber loses the oldest events. */
final class EventHub {
    private static final int QUEUE_CAPACITY = 256;

    private final List<BlockingQueue<String>> subscribers = new CopyOnWriteArrayList<>();

    BlockingQueue<String> subscribe() {
        BlockingQueue<String> queue = new ArrayBlockingQueue<>(QUEUE_CAPACITY);
        subscribers.add(queue);
        return queue;
    }

    void unsubscribe(BlockingQueue<String> queue) {
        subscribers.removeIf(each -> each == queue);
    }

    void publish(String event) {
        for (BlockingQueue<String> queue : subscribers) {
            while (!queue.offer(event)) {
                queue.poll();
            }
        }
    }

    int subscribers() {
        return subscribers.size();
    }
}
