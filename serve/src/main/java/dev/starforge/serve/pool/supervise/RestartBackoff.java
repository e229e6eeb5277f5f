package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.config.RestartPolicy;
import java.time.Duration;
import java.util.random.RandomGenerator;

/**
 * Delay before a worker is restarted: exponential backoff with jitter, and a circuit breaker for a worker that cannot start.
 */
final class RestartBackoff {
    private static final double JITTER = 0.1;

    private final RestartPolicy policy;
    private final RandomGenerator random;
    private int inRow;
    private int failedStarts;

    RestartBackoff(RestartPolicy policy, RandomGenerator random) {
        this.policy = policy;
        this.random = random;
    }

    /**
     * The delay until the restart of a worker that exited.
     *
     * @param early the worker was never ready, or only briefly
     * @param ready how long it was ready
     */
    Duration after(boolean early, Duration ready) {
        failedStarts = early ? failedStarts + 1 : 0;
        inRow = ready.compareTo(policy.stable()) >= 0 ? 0 : inRow;
        if (isOpen()) {
            return policy.breakerOpen();
        }
        Duration wait = policy.backoff();
        for (int i = 0; i < inRow && wait.compareTo(policy.most()) < 0; i++) {
            wait = wait.multipliedBy(2);
        }
        wait = wait.compareTo(policy.most()) < 0 ? wait : policy.most();
        inRow++;
        return wait.plusNanos((long) (wait.toNanos() * JITTER * (2 * random.nextDouble() - 1)));
    }

    /** Returns true if the circuit breaker is open. */
    boolean isOpen() {
        return failedStarts >= policy.breakerFailures();
    }
}
