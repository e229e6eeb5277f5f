package dev.starforge.serve.pool.supervise;

import java.time.Duration;

/**
 * How long things may take.
 *
 * @param start of a worker, from its process to its callback
 * @param health between two checks of a worker
 * @param misses checks in a row without a good answer, after which a worker has failed
 * @param canary between two tokens asked from a worker that has nothing to do
 * @param token that such a token may take
 * @param drain that running requests have to finish
 * @param terminate from SIGTERM to SIGKILL
 * @param early a worker that ends so soon after it was ready counts as a failed start
 * @param request that one waits for a worker to be ready
 * @param resolve between two looks at the addresses of a name
 */
public record PoolTimeouts(
        Duration start,
        Duration health,
        int misses,
        Duration canary,
        Duration token,
        Duration drain,
        Duration terminate,
        Duration early,
        Duration request,
        Duration resolve) {
    public static final PoolTimeouts DEFAULT = new PoolTimeouts(
            Duration.ofSeconds(300),
            Duration.ofSeconds(10),
            3,
            Duration.ofSeconds(60),
            Duration.ofSeconds(12),
            Duration.ofSeconds(30),
            Duration.ofSeconds(30),
            Duration.ofSeconds(10),
            Duration.ofSeconds(120),
            Duration.ofSeconds(10));
}
