package dev.starforge.serve.metrics;

import java.time.Duration;

/** Tokens per second over the last whole seconds, in a ring buffer with one cell per second. */
final class TokenRate {
    private final int window;
    private final long[] seconds;
    private final long[] counts;

    TokenRate(Duration window) {
        this.window = (int) window.toSeconds();
        seconds = new long[this.window + 1];
        counts = new long[this.window + 1];
    }

    synchronized void count() {
        long now = System.nanoTime() / 1_000_000_000;
        int cell = Math.floorMod(now, seconds.length);
        if (seconds[cell] != now) {
            seconds[cell] = now;
            counts[cell] = 0;
        }
        counts[cell]++;
    }

    synchronized double perSecond() {
        long now = System.nanoTime() / 1_000_000_000;
        long sum = 0;
        for (int i = 0; i < seconds.length; i++) {
            sum += seconds[i] < now && seconds[i] >= now - window ? counts[i] : 0;
        }
        return (double) sum / window;
    }
}
