package dev.starforge.text.bpe;

import java.util.Arrays;

/** A hash map from non-negative longs to longs with open addressing, used for merges and trie edges. */
public final class LongMap {
    public static final long NONE = -1;

    private long[] table;
    private int mask;
    private int size;

    public LongMap(int expected) {
        allocate(Integer.highestOneBit(Math.max(8, expected)) * 4);
    }

    private void allocate(int slots) {
        table = new long[2 * slots];
        Arrays.fill(table, NONE);
        mask = slots - 1;
    }

    public static long pair(int high, int low) {
        return (long) high << 32 | low & 0xFFFFFFFFL;
    }

    /** Returns the value of a key, or {@link #NONE}. */
    public long get(long key) {
        int slot = slot(key);
        return table[2 * slot] == key ? table[2 * slot + 1] : NONE;
    }

    public void put(long key, long value) {
        int slot = slot(key);
        if (table[2 * slot] != key) {
            if (2 * ++size > mask) {
                grow();
                slot = slot(key);
            }
            table[2 * slot] = key;
        }
        table[2 * slot + 1] = value;
    }

    private int slot(long key) {
        long hash = key * 0x9E3779B97F4A7C15L;
        int slot = (int) (hash >>> 32) & mask;
        while (table[2 * slot] != key && table[2 * slot] != NONE) {
            slot = slot + 1 & mask;
        }
        return slot;
    }

    private void grow() {
        long[] old = table;
        allocate(2 * (mask + 1));
        for (int i = 0; i < old.length; i += 2) {
            if (old[i] != NONE) {
                int slot = slot(old[i]);
                table[2 * slot] = old[i];
                table[2 * slot + 1] = old[i + 1];
            }
        }
    }
}
