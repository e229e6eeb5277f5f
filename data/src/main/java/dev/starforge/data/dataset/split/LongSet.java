package dev.starforge.data.dataset.split;

/** A set of hashes without boxes. */
final class LongSet {
    private long[] keys = new long[1024];
    private int size;

    boolean add(long hash) {
        long key = hash == 0 ? 1 : hash;
        int slot = slot(key);
        if (keys[slot] == key) {
            return false;
        }
        keys[slot] = key;
        if (3 * ++size > 2 * keys.length) {
            long[] old = keys;
            keys = new long[2 * old.length];
            for (long each : old) {
                if (each != 0) {
                    keys[slot(each)] = each;
                }
            }
        }
        return true;
    }

    boolean contains(long hash) {
        long key = hash == 0 ? 1 : hash;
        return keys[slot(key)] == key;
    }

    int size() {
        return size;
    }

    private int slot(long key) {
        int slot = (int) (key * 0x9E3779B97F4A7C15L >>> 32) & keys.length - 1;
        while (keys[slot] != 0 && keys[slot] != key) {
            slot = slot + 1 & keys.length - 1;
        }
        return slot;
    }
}
