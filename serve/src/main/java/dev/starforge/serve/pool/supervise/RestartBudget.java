package dev.starforge.serve.pool.supervise;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;

/** Limits restarts of all workers together to ten per minute. */
final class RestartBudget {
    private static final int MAX_RESTARTS = 10;
    private static final long WINDOW = TimeUnit.MINUTES.toNanos(1);

    private final Deque<Long> restarts = new ArrayDeque<>();

    /** Counts a restart if it is within the budget. Returns false if not. */
    boolean take(long now) {
        while (!restarts.isEmpty() && now - restarts.getFirst() >= WINDOW) {
            restarts.removeFirst();
        }
        if (restarts.size() >= MAX_RESTARTS) {
            return false;
        }
        restarts.addLast(now);
        return true;
    }
}
