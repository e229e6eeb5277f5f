package dev.starforge.data.git;

import java.util.Arrays;

/** The bytes of a file, and where its lines begin. A line has its newline; the last one may lack it. */
public final class LineIndex {
    private final byte[] bytes;
    private final int[] starts;
    private final int count;

    private LineIndex(byte[] bytes, int[] starts, int count) {
        this.bytes = bytes;
        this.starts = starts;
        this.count = count;
    }

    public static LineIndex of(byte[] bytes) {
        return of(bytes, bytes.length, 0);
    }

    /** The lines that begin before a place, and so many after it; the others do not count. */
    static LineIndex of(byte[] bytes, int place, int more) {
        int[] starts = new int[16 + place / 24];
        int count = 0;
        int left = more;
        int at = 0;
        while (at < bytes.length && (at < place || left-- > 0)) {
            if (count + 1 == starts.length) {
                starts = Arrays.copyOf(starts, 2 * starts.length);
            }
            starts[count++] = at;
            at = Math.min(newline(bytes, at) + 1, bytes.length);
        }
        starts[count] = at;
        return new LineIndex(bytes, starts, count);
    }

    /** Where the next newline is, or the end. */
    private static int newline(byte[] bytes, int from) {
        int at = from;
        while (at < bytes.length && bytes[at] != '\n') {
            at++;
        }
        return at;
    }

    public int count() {
        return count;
    }

    public byte[] bytes() {
        return bytes;
    }

    /** Where a line begins; for the number of lines, where the file ends. */
    public int start(int line) {
        return starts[line];
    }

    public int end(int line) {
        return starts[line + 1];
    }

    boolean same(int line, LineIndex other, int otherLine) {
        return Arrays.equals(bytes, start(line), end(line), other.bytes, other.start(otherLine), other.end(otherLine));
    }

    int hash(int line) {
        long hash = 0;
        for (int at = starts[line]; at < starts[line + 1]; at++) {
            hash = (hash ^ bytes[at]) * 0x9E3779B97F4A7C15L;
        }
        return (int) (hash >>> 32);
    }

    /** How many lines begin before a place. */
    int before(int place) {
        int found = Arrays.binarySearch(starts, 0, count, place);
        return found >= 0 ? found : -found - 1;
    }
}
