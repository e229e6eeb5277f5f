package dev.starforge.serve.pool.supervise;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;

/** At most ten restarts a minute, of all workers together: starting is the most expensive thing that workers do to a machine. */
final class RestartBudget {
    private static final int MOST = 10;
    private static final long WINDOW = TimeUnit.MINUTES.toNanos(1);

    private final Deque<Long> restarts = new ArrayDeque<>();

    /** Whether one more is within the budget; if so, it counts. */
    boolean take(long now) {
        while (!restarts.isEmpty() && now - restarts.getFirst() >= WINDOW) {
            restarts.removeFirst();
        }
        if (restarts.size() >= MOST) {
            return false;
        }
        restarts.addLast(now);
        return true;
    }
}
