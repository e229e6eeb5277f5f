package dev.starforge.serve.pool.config;

import java.time.Duration;

/**
 * When a worker that exited is restarted.
 *
 * @param backoff delay before the first restart; doubles with each restart
 * @param most maximum backoff
 * @param stable time ready after which the backoff is reset
 * @param breakerFailures consecutive failed starts that open the circuit breaker
 * @param breakerOpen time until a trial restart
 */
public record RestartPolicy(
        Duration backoff, Duration most, Duration stable, int breakerFailures, Duration breakerOpen) {
    public static final RestartPolicy DEFAULT = new RestartPolicy(
            Duration.ofSeconds(1), Duration.ofSeconds(60), Duration.ofSeconds(300), 5, Duration.ofSeconds(300));
}
