package dev.starforge.text.secrets;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Lines in which a proper look found nothing, by their 64-bit hashes. The next version of a file has nearly the same lines,
 * and looking is what takes longest of reading a history. A table of fixed size, in which the newer hash takes the place of
 * the older; any thread may ask.
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
