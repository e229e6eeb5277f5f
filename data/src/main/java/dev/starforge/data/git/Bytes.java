package dev.starforge.data.git;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A growing array of bytes, without the locks of the JDK's; and a way to look at eight of them at once. */
public final class Bytes {
    /** A one in each byte; the product with a byte has it eight times. */
    private static final long ONES = 0x0101010101010101L;

    /** The high bit of each byte. */
    public static final long HIGH = ONES << 7;

    private static final VarHandle WORDS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private byte[] bytes = new byte[4096];
    private int size;

    /** Eight bytes of an array, the first one lowest. */
    public static long eight(byte[] bytes, int at) {
        return (long) WORDS.get(bytes, at);
    }

    /** The high bit of each of eight bytes that is below a bound of at most 127, and perhaps of some above the first such. */
    public static long below(long eight, int bound) {
        // such a byte borrows, and had no high bit before; the next one may then borrow too
        return eight - bound * ONES & ~eight & HIGH;
    }

    /** The same for each byte that has a value. */
    public static long equal(long eight, int value) {
        return below(eight ^ value * ONES, 1);
    }

    /** Which of eight bytes is the first with its high bit set. */
    public static int first(long marked) {
        return Long.numberOfTrailingZeros(marked) >>> 3;
    }

    public Bytes add(int value) {
        reserve(1);
        bytes[size++] = (byte) value;
        return this;
    }

    public Bytes add(byte[] more, int from, int to) {
        reserve(to - from);
        System.arraycopy(more, from, bytes, size, to - from);
        size += to - from;
        return this;
    }

    public Bytes add(byte[] more) {
        return add(more, 0, more.length);
    }

    /** Characters below 256, one byte each. */
    public Bytes addLatin(String text) {
        return add(text.getBytes(StandardCharsets.ISO_8859_1));
    }

    public Bytes clear() {
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
