package dev.starforge.text.secrets;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * A cache of lines without secrets, by their 64-bit hashes. Successive versions of a file share most lines, and
 * scanning dominates the time to read a history. The table has a fixed size; newer hashes replace older ones.
 * Thread-safe.
 */
final class CleanLineCache {
    private static final int SIZE = 1 << 18;
    private static final long PRIME = 0x9E3779B97F4A7C15L;

    private final AtomicLongArray hashes = new AtomicLongArray(SIZE);

    static long hash(byte[] bytes, int from, int to) {
        long hash = to - from + 1;
        for (int i = from; i < to; i++) {
            hash = (hash ^ bytes[i]) * PRIME;
            hash ^= hash >>> 32;
        }
        return hash;
    }

    boolean contains(long hash) {
        return hashes.get((int) hash & SIZE - 1) == hash;
    }

    void add(long hash) {
        hashes.set((int) hash & SIZE - 1, hash);
    }
}
