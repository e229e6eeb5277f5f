package dev.starforge.data.git;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A growing byte array, without the synchronization of ByteArrayOutputStream. */
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

    /** Adds characters below 256, one byte each. */
    public ByteBuilder addLatin(String text) {
        return add(text.getBytes(StandardCharsets.ISO_8859_1));
    }

    public ByteBuilder clear() {
        size = 0;
        return this;
    }

    /** Truncates to {@code size} bytes. */
    public void cut(int size) {
        this.size = size;
    }

    public int size() {
        return size;
    }

    public byte at(int index) {
        return bytes[index];
    }

    /** The backing array; its first {@link #size} bytes are valid. */
    public byte[] array() {
        return bytes;
    }

    public byte[] copy() {
        return Arrays.copyOf(bytes, size);
    }

    /** Ensures capacity for {@code more} bytes, which the caller writes to {@link #array} and confirms with {@link #grown}. */
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
