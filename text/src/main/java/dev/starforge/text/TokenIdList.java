package dev.starforge.text;

import java.util.Arrays;

/** A growable list of token ids without boxing. */
public final class TokenIdList {
    private int[] ids = new int[64];
    private int size;

    public TokenIdList() {}

    public void add(int id) {
        if (size == ids.length) {
            ids = Arrays.copyOf(ids, 2 * size);
        }
        ids[size++] = id;
    }

    public void addAll(int... more) {
        if (more.length > ids.length - size) {
            ids = Arrays.copyOf(ids, Math.max(2 * size, Math.addExact(size, more.length)));
        }
        System.arraycopy(more, 0, ids, size, more.length);
        size += more.length;
    }

    public int size() {
        return size;
    }

    public int get(int index) {
        if (index >= size) {
            throw new IndexOutOfBoundsException("get: index " + index + " of " + size + " ids");
        }
        return ids[index];
    }

    public void clear() {
        size = 0;
    }

    public int[] toArray() {
        return from(0);
    }

    /** Returns a copy of the ids from index {@code start} to the end. */
    public int[] from(int start) {
        return Arrays.copyOfRange(ids, start, size);
    }
}
