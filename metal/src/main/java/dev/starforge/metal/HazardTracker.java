package dev.starforge.metal;

import java.util.Arrays;

/**
 * The bytes that launches have read and written since the last barrier. Metal does not track them (the buffers are untracked), and
 * launches of a concurrent encoder overlap unless a barrier separates them.
 */
final class HazardTracker {
    private static final int FIRST_CAPACITY = 64;

    private final Ranges read = new Ranges();
    private final Ranges written = new Ranges();

    /** Records a launch. Returns true if a barrier must precede it: it reads or overwrites what was written, or overwrites what was read. */
    boolean needsBarrier(ByteRanges launch) {
        boolean conflict =
                written.overlap(launch.read()) || written.overlap(launch.written()) || read.overlap(launch.written());
        if (conflict) {
            clear();
        }
        read.add(launch.read());
        written.add(launch.written());
        return conflict;
    }

    /** A barrier, or the end of the encoder. */
    void clear() {
        read.clear();
        written.clear();
    }

    /**
     * The bytes that a launch reads and writes.
     *
     * @param read begin and end of each range, one after the other
     * @param written likewise
     */
    @SuppressWarnings("ArrayRecordComponent") // never compared; read in a loop over all launches
    record ByteRanges(long[] read, long[] written) {}

    private static final class Ranges {
        private long[] bounds = new long[FIRST_CAPACITY];
        private int used;

        boolean overlap(long[] others) {
            for (int i = 0; i < others.length; i += 2) {
                for (int j = 0; j < used; j += 2) {
                    if (others[i] < bounds[j + 1] && bounds[j] < others[i + 1]) {
                        return true;
                    }
                }
            }
            return false;
        }

        void add(long[] others) {
            if (used + others.length > bounds.length) {
                bounds = Arrays.copyOf(bounds, Math.max(2 * bounds.length, used + others.length));
            }
            System.arraycopy(others, 0, bounds, used, others.length);
            used += others.length;
        }

        void clear() {
            used = 0;
        }
    }
}
