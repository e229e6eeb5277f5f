package dev.starforge.serve.generation;

import java.time.Duration;

/**
 * Latencies of a sequence.
 *
 * @param timeToFirstToken from its arrival to its first token; to its end if it has no token
 * @param decode from the first token to the last
 */
public record Timings(Duration timeToFirstToken, Duration decode) {
    /** Decode throughput for {@code tokens} generated tokens. */
    public double tokensPerSecond(int tokens) {
        return tokens < 2 || decode.isZero() ? 0 : (tokens - 1) / (decode.toNanos() / 1e9);
    }
}
