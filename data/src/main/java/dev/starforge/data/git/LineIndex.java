package dev.starforge.data.git;

import java.util.Arrays;

/** The bytes of a file and the start of each line. A line includes its newline; the last one may have none. */
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
        int[] starts = new int[16 + bytes.length / 24];
        int count = 0;
        int at = 0;
        while (at < bytes.length) {
            if (count + 1 == starts.length) {
                starts = Arrays.copyOf(starts, 2 * starts.length);
            }
            starts[count++] = at;
            at = Math.min(newline(bytes, at) + 1, bytes.length);
        }
        starts[count] = at;
        return new LineIndex(bytes, starts, count);
    }

    /** The position of the next newline, or the end. */
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

    /** The start of a line; for {@code line == count()}, the end of the file. */
    public int start(int line) {
        return starts[line];
    }

    public int end(int line) {
        return starts[line + 1];
    }
}
