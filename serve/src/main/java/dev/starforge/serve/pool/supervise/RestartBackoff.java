package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.config.RestartPolicy;
import java.time.Duration;
import java.util.random.RandomGenerator;

/**
 * When one worker may be started again: exponential backoff with jitter, so that workers that failed together do not come back
 * together, and a circuit breaker for one that cannot start at all.
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
     * The worker ended; how long until it is started again.
     *
     * @param early it never was ready, or not for long
     * @param ready how long it was
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

    /** Whether only a trial is left. */
    boolean isOpen() {
        return failedStarts >= policy.breakerFailures();
    }
}
