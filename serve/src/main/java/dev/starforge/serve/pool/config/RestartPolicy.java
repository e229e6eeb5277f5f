package dev.starforge.serve.pool.config;

import java.time.Duration;

/**
 * When a worker that ended by itself is started again.
 *
 * @param backoff before the first restart; doubles with each
 * @param most the longest backoff
 * @param stable a worker that was ready for so long begins with the first backoff again
 * @param breakerFailures failed starts in a row that open the circuit breaker
 * @param breakerOpen until one trial
 */
public record RestartPolicy(
        Duration backoff, Duration most, Duration stable, int breakerFailures, Duration breakerOpen) {
    public static final RestartPolicy DEFAULT = new RestartPolicy(
            Duration.ofSeconds(1), Duration.ofSeconds(60), Duration.ofSeconds(300), 5, Duration.ofSeconds(300));
}
