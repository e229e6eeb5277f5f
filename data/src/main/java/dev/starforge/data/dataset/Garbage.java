package dev.starforge.data.dataset;

/**
 * Keeps the heap to about twice what is needed. The serial collector lets its old part grow to a quarter of the machine's
 * memory before it looks there for the first time, and much of what commits leave behind gets there only because it was in
 * use when the young part was full: 10,000 commits that need 0.3 GB at a time held 2 GB. One thread at a time.
 */
final class Garbage {
    private static final long LEAST = 512L << 20;

    private long needed;

    /** To be called often: it is cheap where there is nothing to do. */
    void collect() {
        if (used() > Math.max(LEAST, 2 * needed)) {
            System.gc();
            needed = used();
        }
    }

    private static long used() {
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }
}
