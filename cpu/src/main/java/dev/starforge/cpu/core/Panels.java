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
 * How a matrix of quantized weights lies in this device's memory. A file keeps a row's blocks one after the other, which
 * suits no vector: codes of a few bits between scales. Here 32 rows make a panel, and lanes are rows: of each block, first
 * the scales, then the codes, or the low four bits of those of five and then their fifth, each as the same 16 bits of 32
 * rows side by side. A kernel reads a panel as one stream, needs no sum across lanes, and meets each scale as a vector. A
 * panel has exactly the bytes of its rows, and the way there has a way back. Rows that fill no panel stay as in the file, and
 * so do the planes of a planar type but for its codes, whose panels have no scales: those are few, and are decoded for a
 * stretch of a panel at a time.
 *
 * <p>Within 32 shorts, row r below 16 is short 2r and row 16 + r is short 2r + 1, so that the two halves of sixteen ints
 * are rows in order. Codes of eight bits lie four neighbours of a row to an int, the rows in order. Eight codes of six bits
 * take three words: two codes each from below, and in what is left of them four low bits of the seventh, the high bits of the
 * last two, four low bits of the eighth. One stream, and most codes need no joining.
 */
public final class Panels {
    /** Rows of a panel. */
    public static final int ROWS = 32;

    private static final int LANES = ROWS * Short.BYTES;
    private static final ValueLayout.OfShort SHORT = ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(LITTLE_ENDIAN);
    private static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;
    private static final VarHandle SHORTS = MethodHandles.byteArrayViewVarHandle(short[].class, LITTLE_ENDIAN);
    private static final VarHandle INTS = MethodHandles.byteArrayViewVarHandle(int[].class, LITTLE_ENDIAN);
    private static final VarHandle LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, LITTLE_ENDIAN);
    private static final Map<DType, Panels> ALL = all();

    /** Bytes of a row that are packed at a time. */
    private static final int TILE = 288;

    public final DType type;

    /** The lower bits of a code, and those that a file keeps elsewhere. */
    public final int low;

    public final int high;

    private final int elements;
    private final int bytes;
    private final int[] lowAt; // where in a block, in bits, the parts of each code are
    private final int[] highAt;
    private final int scales; // bytes of a block that are not codes, and where they begin
    private final int scalesAt;

    private Panels(DType type, int low, IntUnaryOperator lowAt, int high, IntUnaryOperator highAt, int scalesAt) {
        this.type = type;
        this.low = low;
        this.high = high;
        this.scalesAt = scalesAt;
        elements = type.blockElements();
        bytes = type.isPlanar() ? elements * (low + high) / Byte.SIZE : type.blockBytes();
        scales = bytes - elements * (low + high) / Byte.SIZE;
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
        all.put(DType.Q4_0, new Panels(DType.Q4_0, 4, i -> halves(2, i), 0, none, 0));
        all.put(DType.Q4_1, new Panels(DType.Q4_1, 4, i -> halves(4, i), 0, none, 0));
        all.put(DType.Q5_0, new Panels(DType.Q5_0, 4, i -> halves(6, i), 1, i -> 16 + i, 0));
        all.put(DType.Q5_1, new Panels(DType.Q5_1, 4, i -> halves(8, i), 1, i -> 32 + i, 0));
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

    private static int halves(int from, int i) {
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

    /** Whether tensors of this type lie in panels; the others stay as their file has them. */
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

    /** The bytes of a row of blocks, or of codes. */
    long rowBytes(long k) {
        return k / elements * bytes;
    }

    /** The bytes of a block, or of its codes. */
    int bytes() {
        return bytes;
    }

    /** Where in a panel the block with element {@code k} begins. */
    public long at(long k) {
        return ROWS * rowBytes(k);
    }

    /** Where in a block of a panel, which begins with the scales, the first plane begins, and, of five bits, the second. */
    public int lowAt() {
        return ROWS * scales;
    }

    public int highAt() {
        return lowAt() + ROWS * elements * low / Byte.SIZE;
    }

    /** Whether codes have their fifth bit in a plane of its own. */
    public boolean upper() {
        return high == 1;
    }

    /** Whether codes have six bits, three words for eight of them. */
    public boolean sixths() {
        return high == 2;
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
                    if (sixths()) {
                        putSixths(file, block, packed, to + lowAt(), row);
                    } else {
                        put(file, block, lowAt, low, packed, to + lowAt(), row);
                    }
                    if (upper()) {
                        put(file, block, highAt, high, packed, to + highAt(), row);
                    }
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
     * One row of a plane of a block. Eight neighbours have their bits at the same place of eight neighbouring bytes, of
     * which one word is made; but for the upper bits of Q5_0 and Q5_1 and for GPTQ's, which lie in order already, and NF4's,
     * whose pairs lie the other way round.
     */
    private void put(byte[] file, int block, int[] at, int bits, byte[] out, int plane, int row) {
        if (bits == Byte.SIZE) {
            int to = plane + row * Integer.BYTES;
            for (int i = 0; i < elements; i += 4, to += 4 * ROWS) {
                INTS.set(out, to, (int) INTS.get(file, block + (at[i] >> 3)));
            }
            return;
        }
        int to = plane + lane(row) * Short.BYTES;
        if (at[1] - at[0] != Byte.SIZE) {
            for (int i = 0; i < elements; i += Short.SIZE / bits, to += LANES) {
                int pair = (short) SHORTS.get(file, block + (at[i] >> 3));
                SHORTS.set(out, to, (short) (at[1] > at[0] ? pair : pair >> 4 & 0x0f0f | (pair & 0x0f0f) << 4));
            }
            return;
        }
        switch (bits) {
            case 4 -> {
                for (int i = 0; i < elements; i += 8, to += 2 * LANES) {
                    int eight = nibbles((long) LONGS.get(file, block + (at[i] >> 3)) >>> (at[i] & 7));
                    SHORTS.set(out, to, (short) eight);
                    SHORTS.set(out, to + LANES, (short) (eight >> 16));
                }
            }
            default -> {
                for (int i = 0; i < elements; i += 16, to += LANES) {
                    long first = (long) LONGS.get(file, block + (at[i] >> 3)) >>> (at[i] & 7);
                    long second = (long) LONGS.get(file, block + (at[i + 8] >> 3)) >>> (at[i + 8] & 7);
                    SHORTS.set(out, to, (short) (bits(first) | bits(second) << 8));
                }
            }
        }
    }

    private void putSixths(byte[] file, int block, byte[] out, int plane, int row) {
        int to = plane + lane(row) * Short.BYTES;
        for (int i = 0; i < elements; i += 8, to += 3 * LANES) {
            long low = (long) LONGS.get(file, block + (lowAt[i] >> 3)) >>> (lowAt[i] & 7);
            long high = (long) LONGS.get(file, block + (highAt[i] >> 3)) >>> (highAt[i] & 7);
            long codes = low & 0x0f0f0f0f0f0f0f0fL | (high & 0x0303030303030303L) << 4;
            long pairs = codes & 0x00ff00ff00ff00ffL | (codes & 0xff00ff00ff00ff00L) >>> 2;
            int seventh = (int) (codes >>> 48) & 0x3f;
            int eighth = (int) (codes >>> 56);
            SHORTS.set(out, to, (short) (pairs | seventh << 12));
            SHORTS.set(out, to + LANES, (short) (pairs >>> 16 | seventh >> 4 << 12 | eighth >> 4 << 14));
            SHORTS.set(out, to + 2 * LANES, (short) (pairs >>> 32 | eighth << 12));
        }
    }

    private void getSixths(MemorySegment in, long plane, int row, byte[] block, int to) {
        long from = plane + lane(row) * Short.BYTES;
        for (int i = 0; i < elements; i += 8, from += 3 * LANES) {
            int w0 = in.get(SHORT, from);
            int w1 = in.get(SHORT, from + LANES);
            int w2 = in.get(SHORT, from + 2 * LANES);
            long seventh = w0 >> 12 & 15 | w1 >> 8 & 0x30;
            long eighth = w2 >> 12 & 15 | w1 >> 10 & 0x30;
            long codes = w0 & 0xfff | (w1 & 0xfffL) << 12 | (w2 & 0xfffL) << 24 | seventh << 36 | eighth << 42;
            for (int j = i; j < i + 8; j++, codes >>>= 6) {
                block[to + (lowAt[j] >> 3)] |= (byte) ((codes & 15) << (lowAt[j] & 7));
                block[to + (highAt[j] >> 3)] |= (byte) ((codes >> 4 & 3) << (highAt[j] & 7));
            }
        }
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

    private static int bytePlace(int i, int row) {
        return i / 4 * 4 * ROWS + row * 4 + i % 4;
    }

    /** The block of one row of a panel that begins with element {@code k}, as a file has it. */
    void unpack(MemorySegment in, long panel, long k, int row, byte[] block, int to) {
        Arrays.fill(block, to, to + bytes, (byte) 0);
        long from = panel + at(k);
        if (sixths()) {
            getSixths(in, from + lowAt(), row, block, to);
        } else {
            get(in, from + lowAt(), row, lowAt, low, block, to);
        }
        if (upper()) {
            get(in, from + highAt(), row, highAt, high, block, to);
        }
        from += lane(row) * Short.BYTES;
        for (int i = 0; i < scales; i += Short.BYTES) {
            short pair = in.get(SHORT, from + i * ROWS);
            block[to + scalesAt + i] = (byte) pair;
            block[to + scalesAt + i + 1] = (byte) (pair >> 8);
        }
    }

    private void get(MemorySegment in, long plane, int row, int[] at, int bits, byte[] block, int to) {
        if (bits == Byte.SIZE) {
            for (int i = 0; i < elements; i++) {
                block[to + at[i] / 8] = in.get(BYTE, plane + bytePlace(i, row));
            }
            return;
        }
        int mask = (1 << bits) - 1;
        int each = Short.SIZE / bits;
        long from = plane + lane(row) * Short.BYTES;
        for (int i = 0; i < elements; i += each, from += LANES) {
            int packed = in.get(SHORT, from);
            for (int j = 0; j < each; j++) {
                block[to + (at[i + j] >> 3)] |= (byte) ((packed >> j * bits & mask) << (at[i + j] & 7));
            }
        }
    }
}
