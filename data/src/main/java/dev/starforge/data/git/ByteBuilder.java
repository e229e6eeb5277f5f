package dev.starforge.data.git;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A growing array of bytes, without the locks of the JDK's. */
public final class ByteBuilder {
    private byte[] bytes = new byte[4096];
    private int size;

    public ByteBuilder add(int value) {
        reserve(1);
        bytes[size++] = (byte) value;
        return this;
    }

    public ByteBuilder add(byte[] more, int from, int to) {
        reserve(to - from);
        System.arraycopy(more, from, bytes, size, to - from);
        size += to - from;
        return this;
    }

    public ByteBuilder add(byte[] more) {
        return add(more, 0, more.length);
    }

    /** Characters below 256, one byte each. */
    public ByteBuilder addLatin(String text) {
        return add(text.getBytes(StandardCharsets.ISO_8859_1));
    }

    public ByteBuilder clear() {
        size = 0;
        return this;
    }

    /** Takes back what was added after so many bytes. */
    public void cut(int size) {
        this.size = size;
    }

    public int size() {
        return size;
    }

    public byte at(int index) {
        return bytes[index];
    }

    /** The array behind it, of which the first {@link #size} bytes count. */
    public byte[] array() {
        return bytes;
    }

    public byte[] copy() {
        return Arrays.copyOf(bytes, size);
    }

    /** Makes room for so many bytes, to be written to {@link #array} and then {@link #grown}. */
    public void reserve(int more) {
        if (more > bytes.length - size) {
            bytes = Arrays.copyOf(bytes, Math.max(Math.addExact(size, more), (int)
                    Math.min(2L * size, Integer.MAX_VALUE - 8)));
        }
    }

    public void grown(int more) {
        size += more;
    }
}
