package dev.starforge.cpu.core;

import static java.nio.ByteOrder.LITTLE_ENDIAN;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.DeviceException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntUnaryOperator;

/**
 * The layout of a matrix of quantized weights in this device's memory. A file keeps a row's blocks one after the other,
 * which suits no vector: quants of a few bits between scales. Here 32 rows make a panel, and lanes are rows: of each
 * block, first the scales, then the quants; of five and six bits, of 16 elements those above four and then the low four.
 * So a kernel reads a panel as one stream that only goes forward, needs no sum across lanes, and multiplies by scales
 * as vectors. A panel has exactly the bytes of its rows, and the way there has a way back. Rows that fill no panel stay
 * as in the file, and so do the planes of a planar type but for its quants, whose panels have no scales: those are few,
 * and are decoded for a stretch of a panel at a time.
 *
 * <p>An int has eight consecutive quantized values of four bits, or four of eight, and 32 ints are the rows in order.
 * The upper two of six bits are ints as well, of sixteen quants, so that a shift puts them above every second code of
 * eight: see {@link #pairs}. Scales and fifth bits, of sixteen values, are 16 bits of each row: row r below 16 is short
 * 2r and row 16 + r is short 2r + 1, so that the two parts of sixteen ints are rows in order.
 */
public final class Panels {
    /** Rows of a panel. */
    public static final int ROWS = 32;

    /** Elements whose quantized values are stored together, with all their bits. */
    public static final int GROUP = 16;

    private static final int LANES = ROWS * Short.BYTES;
    private static final ValueLayout.OfShort SHORT = ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(LITTLE_ENDIAN);
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT_UNALIGNED.withOrder(LITTLE_ENDIAN);
    private static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;
    private static final VarHandle SHORTS = MethodHandles.byteArrayViewVarHandle(short[].class, LITTLE_ENDIAN);
    private static final VarHandle INTS = MethodHandles.byteArrayViewVarHandle(int[].class, LITTLE_ENDIAN);
    private static final VarHandle LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, LITTLE_ENDIAN);
    private static final Map<DType, Panels> ALL = all();

    /** Bytes of a row that are packed at a time. */
    private static final int TILE = 288;

    public final DType type;

    /** The lower bits of a quantized value, and the upper bits that a file stores separately. */
    public final int low;

    public final int high;

    private final int elements;
    private final int bytes;
    private final int groupBytes;
    private final int[] lowAt; // where in a block, in bits, the parts of each code are
    private final int[] highAt;
    private final int scales; // bytes of a block that are not quantized values, and their offset
    private final int scalesAt;

    private Panels(DType type, int low, IntUnaryOperator lowAt, int high, IntUnaryOperator highAt, int scalesAt) {
        this.type = type;
        this.low = low;
        this.high = high;
        this.scalesAt = scalesAt;
        elements = type.blockElements();
        bytes = type.isPlanar() ? elements * (low + high) / Byte.SIZE : type.blockBytes();
        scales = bytes - elements * (low + high) / Byte.SIZE;
        groupBytes = planeBytes(GROUP, low + high);
        this.lowAt = table(lowAt);
        this.highAt = table(highAt);
    }

    private int[] table(IntUnaryOperator at) {
        int[] table = new int[elements];
        for (int i = 0; i < elements; i++) {
            table[i] = at.applyAsInt(i);
        }
        return table;
    }

    private static Map<DType, Panels> all() {
        Map<DType, Panels> all = new EnumMap<>(DType.class);
        IntUnaryOperator none = i -> 0;
        all.put(DType.Q4_0, new Panels(DType.Q4_0, 4, i -> nibble(2, i), 0, none, 0));
        all.put(DType.Q4_1, new Panels(DType.Q4_1, 4, i -> nibble(4, i), 0, none, 0));
        all.put(DType.Q5_0, new Panels(DType.Q5_0, 4, i -> nibble(6, i), 1, i -> 16 + i, 0));
        all.put(DType.Q5_1, new Panels(DType.Q5_1, 4, i -> nibble(8, i), 1, i -> 32 + i, 0));
        all.put(DType.Q8_0, new Panels(DType.Q8_0, 8, i -> (2 + i) * 8, 0, none, 0));
        all.put(DType.Q4_K, new Panels(DType.Q4_K, 4, i -> runs(16, i), 0, none, 0));
        all.put(DType.Q5_K, new Panels(DType.Q5_K, 4, i -> runs(48, i), 1, i -> (16 + i % 32) * 8 + i / 32, 0));
        all.put(DType.Q6_K, new Panels(DType.Q6_K, 4, Panels::quarters, 2, Panels::twoBits, 192));
        all.put(DType.NF4, new Panels(DType.NF4, 4, i -> highFirst(4, i), 0, none, 0));
        all.put(DType.NF4_DOUBLE, new Panels(DType.NF4_DOUBLE, 4, i -> highFirst(0, i), 0, none, 0));
        for (DType type : List.of(DType.GPTQ_32, DType.GPTQ_64, DType.GPTQ_128, DType.GPTQ_CHANNEL)) {
            all.put(type, new Panels(type, 4, i -> i * 4, 0, none, 0));
        }
        all.put(DType.INT8_128, new Panels(DType.INT8_128, 8, i -> i * 8, 0, none, 0));
        return all;
    }

    private static int nibble(int from, int i) {
        return (from + i % 16) * 8 + i / 16 * 4;
    }

    private static int highFirst(int from, int i) {
        return (from + i / 2) * 8 + 4 - i % 2 * 4;
    }

    private static int runs(int from, int i) {
        return (from + i / 64 * 32 + i % 32) * 8 + i / 32 % 2 * 4;
    }

    private static int quarters(int i) {
        return (i / 128 * 64 + i % 64) * 8 + i % 128 / 64 * 4;
    }

    private static int twoBits(int i) {
        return (128 + i / 128 * 32 + i % 32) * 8 + i % 128 / 32 * 2;
    }

    /** Returns true if tensors of this type are stored in panels; others keep the layout of the file. */
    public static boolean has(DType type) {
        return ALL.containsKey(type);
    }

    public static Panels of(DType type) {
        Panels panels = ALL.get(type);
        if (panels == null) {
            throw new DeviceException("cpu: tensors of " + type + " do not lie in panels");
        }
        return panels;
    }

    /** Returns the bytes of a row of blocks, or of quantized values. */
    long rowBytes(long k) {
        return k / elements * bytes;
    }

    /** Returns the bytes of a block, or of its quantized values. */
    int bytes() {
        return bytes;
    }

    /** Where in a panel the block with element {@code k} begins. */
    public long at(long k) {
        return ROWS * rowBytes(k);
    }

    /** Where in a panel the quants of the group with element {@code k} begin. */
    public long quantsAt(long k) {
        return at(k) + (long) ROWS * scales + k % elements / GROUP * groupBytes;
    }

    /** From there, where the bits above four are, to the lower ones. */
    public int lowAt() {
        return planeBytes(GROUP, high);
    }

    private static int planeBytes(int elements, int bits) {
        return ROWS * elements * bits / Byte.SIZE;
    }

    /** Where in a plane, as it lies between the groups of the other, the bits of element {@code i} begin. */
    private int planeAt(int i, int bits) {
        return i / GROUP * groupBytes + planeBytes(i % GROUP, bits);
    }

    private static int lane(int row) {
        return row % 16 * 2 + row / 16;
    }

    /**
     * Rows of {@code k} elements as a file has them, {@code rows} of them at byte {@code from}, to a panel, whose other rows
     * become zero. Some blocks of all rows at a time go through two small arrays, which stay in the first-level cache: what
     * lies far apart on one side of the transposition lies together on the other.
     */
    public void pack(MemorySegment in, long from, int rows, long k, MemorySegment out, long panel) {
        long blocks = k / elements;
        int most = (int) Math.min(blocks, Math.max(1, TILE / bytes));
        byte[] file = new byte[rows * most * bytes];
        byte[] packed = new byte[ROWS * most * bytes];
        for (long b0 = 0; b0 < blocks; b0 += most) {
            int now = (int) Math.min(most, blocks - b0);
            for (int row = 0; row < rows; row++) {
                long start = from + (row * blocks + b0) * bytes;
                MemorySegment.copy(in, BYTE, start, file, row * now * bytes, now * bytes);
            }
            for (int b = 0; b < now; b++) {
                int to = b * ROWS * bytes;
                for (int row = 0; row < rows; row++) {
                    int block = (row * now + b) * bytes;
                    int quants = to + ROWS * scales;
                    put(file, block, lowAt, low, packed, quants + lowAt(), row);
                    put(file, block, highAt, high, packed, quants, row);
                    int scale = to + lane(row) * Short.BYTES;
                    for (int i = 0; i < scales; i += Short.BYTES, scale += LANES) {
                        SHORTS.set(packed, scale, (short) SHORTS.get(file, block + scalesAt + i));
                    }
                }
            }
            MemorySegment.copy(packed, 0, out, BYTE, panel + at(b0 * elements), now * ROWS * bytes);
        }
    }

    /**
     * One row of a plane of a block. Eight consecutive values have their bits at the same position of eight consecutive
     * bytes; but for the upper bits of Q5_0 and Q5_1 and for GPTQ's, which are in order already, and NF4's, whose pairs
     * are in reverse order.
     */
    private void put(byte[] file, int block, int[] at, int bits, byte[] out, int plane, int row) {
        boolean apart = at[1] - at[0] == Byte.SIZE;
        int first = plane + row * Integer.BYTES;
        switch (bits) {
            case 8 -> {
                for (int i = 0; i < elements; i += 4) {
                    INTS.set(out, first + planeAt(i, 8), (int) INTS.get(file, block + (at[i] >> 3)));
                }
            }
            case 4 -> {
                for (int i = 0; i < elements; i += 8) {
                    int to = first + planeAt(i, 4);
                    int eight = apart ? nibbles(eight(file, block, at[i])) : (int) INTS.get(file, block + (at[i] >> 3));
                    INTS.set(out, to, at[1] > at[0] ? eight : eight >>> 4 & 0x0f0f0f0f | (eight & 0x0f0f0f0f) << 4);
                }
            }
            case 2 -> {
                for (int i = 0; i < elements; i += 16) {
                    int to = first + planeAt(i, 2);
                    INTS.set(out, to, pairs(eight(file, block, at[i])) | pairs(eight(file, block, at[i + 8])) << 4);
                }
            }
            case 1 -> {
                for (int i = 0; i < elements; i += 16) {
                    int sixteen = apart
                            ? bits(eight(file, block, at[i])) | bits(eight(file, block, at[i + 8])) << 8
                            : (short) SHORTS.get(file, block + (at[i] >> 3));
                    SHORTS.set(out, plane + lane(row) * Short.BYTES + planeAt(i, 1), (short) sixteen);
                }
            }
            default -> {} // no plane
        }
    }

    /** Eight bytes of a file whose lowest bits are those of eight consecutive values. */
    private static long eight(byte[] file, int block, int at) {
        return (long) LONGS.get(file, block + (at >> 3)) >>> (at & 7);
    }

    /** The lowest two bits of eight bytes: those of bytes 2i and 2i + 1 are the lowest four of byte i. */
    private static int pairs(long x) {
        x = x & 0x0003000300030003L | (x & 0x0300030003000300L) >>> 6;
        x = (x | x >>> 8) & 0x0000ffff0000ffffL;
        return (int) (x | x >>> 16);
    }

    /** The lowest four bits of eight bytes, one after the other. */
    private static int nibbles(long x) {
        x &= 0x0f0f0f0f0f0f0f0fL;
        x = (x | x >>> 4) & 0x00ff00ff00ff00ffL;
        x = (x | x >>> 8) & 0x0000ffff0000ffffL;
        return (int) (x | x >>> 16);
    }

    /** The lowest bit of eight bytes, one after the other: the product moves bit 8j to bit 56 + j, and none meet. */
    private static int bits(long x) {
        return (int) ((x & 0x0101010101010101L) * 0x0102040810204080L >>> 56);
    }

    /** The block of one row of a panel that begins with element {@code k}, as a file has it. */
    void unpack(MemorySegment in, long panel, long k, int row, byte[] block, int to) {
        Arrays.fill(block, to, to + bytes, (byte) 0);
        long quants = panel + quantsAt(k);
        get(in, quants + lowAt(), row, lowAt, low, block, to);
        get(in, quants, row, highAt, high, block, to);
        long from = panel + at(k) + lane(row) * Short.BYTES;
        for (int i = 0; i < scales; i += Short.BYTES) {
            short pair = in.get(SHORT, from + i * ROWS);
            block[to + scalesAt + i] = (byte) pair;
            block[to + scalesAt + i + 1] = (byte) (pair >> 8);
        }
    }

    private void get(MemorySegment in, long plane, int row, int[] at, int bits, byte[] block, int to) {
        for (int i = 0; i < elements && bits > 0; i++) {
            int code = bits == 1
                    ? in.get(SHORT, plane + planeAt(i & -16, 1) + lane(row) * Short.BYTES) >> i % 16
                    : in.get(INT, plane + planeAt(i & -32 / bits, bits) + row * Integer.BYTES) >> place(i, bits);
            block[to + (at[i] >> 3)] |= (byte) ((code & (1 << bits) - 1) << (at[i] & 7));
        }
    }

    /** Returns the bit offset in its int of a quantized value, or of its upper two bits. */
    private static int place(int i, int bits) {
        return bits == 2 ? i % 8 / 2 * 8 + i % 2 * 2 + i / 8 % 2 * 4 : i * bits % 32;
    }
}
