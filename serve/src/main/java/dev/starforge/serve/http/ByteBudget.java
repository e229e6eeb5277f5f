package dev.starforge.serve.http;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;

/** An amount of memory that many requests share. What is reserved never exceeds it. Thread-safe. */
public final class ByteBudget {
    private final long total;
    private final Deque<Object> waiting = new ArrayDeque<>();
    private long used;

    public ByteBudget(long total) {
        this.total = total;
    }

    public long total() {
        return total;
    }

    /** The bytes that are reserved now. */
    public synchronized long used() {
        return used;
    }

    /** Reserves {@code bytes} if they are free now. */
    public synchronized boolean tryReserve(long bytes) {
        if (bytes > total - used) {
            return false;
        }
        used += bytes;
        return true;
    }

    /**
     * Waits, in order of arrival, until {@code bytes} are free. Returns false if that takes longer than {@code patience}. Reserving 0 bytes
     * never waits.
     */
    public synchronized boolean reserve(long bytes, Duration patience) throws InterruptedException {
        if (bytes == 0) {
            return true;
        }
        long deadline = System.nanoTime() + patience.toNanos();
        Object self = new Object();
        waiting.add(self);
        try {
            while (waiting.peek() != self || bytes > total - used) {
                long left = deadline - System.nanoTime();
                if (left <= 0) {
                    return false;
                }
                TimeUnit.NANOSECONDS.timedWait(this, left);
            }
            used += bytes;
            return true;
        } finally {
            waiting.remove(self);
            notifyAll();
        }
    }

    public synchronized void release(long bytes) {
        if (bytes > used) {
            throw new IllegalStateException("release: " + bytes + " bytes, but only " + used + " are reserved");
        }
        used -= bytes;
        notifyAll();
    }
}
