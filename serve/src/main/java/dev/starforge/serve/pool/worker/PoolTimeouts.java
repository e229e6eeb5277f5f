package dev.starforge.serve.pool.worker;

import java.time.Duration;

/**
 * Timeouts and intervals of a pool.
 *
 * @param start maximum time from the start of a worker process to its callback
 * @param health interval of health checks
 * @param misses consecutive failed health checks after which a worker has failed
 * @param canary interval of canary requests to an idle worker; a busy one that generates nothing gets them earlier
 * @param token timeout of a canary request
 * @param drain time that running requests have to finish
 * @param terminate time from SIGTERM to SIGKILL
 * @param early a worker that exits within this time after it was ready counts as a failed start
 * @param request maximum time that a request waits for a ready worker
 * @param resolve interval of name resolution
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
