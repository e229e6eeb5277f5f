package dev.starforge.cpu.core;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.host.HostMemory;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/**
 * One tensor's elements by flat index. Kernels compute on float arrays and come here to fetch and to deliver; this is the
 * only place that converts element types.
 */
public final class View {
    static final ValueLayout.OfFloat F32 = ValueLayout.JAVA_FLOAT_UNALIGNED;
    private static final ValueLayout.OfShort B16 = ValueLayout.JAVA_SHORT_UNALIGNED;
    private static final ValueLayout.OfInt I32 = ValueLayout.JAVA_INT_UNALIGNED;
    private static final VectorSpecies<Float> FLOATS = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = FLOATS.withLanes(int.class);
    public static final VectorSpecies<Short> SHORTS =
            VectorSpecies.of(short.class, VectorShape.forBitSize(Lanes.WIDTH * Short.SIZE));
    private static final float TWO_TO_112 = 0x1p112f;

    public final MemorySegment segment;
    public final DType dtype;
    public final long size;
    public final long last;
    public final long rows;
    public final long height;
    private final HostMemory memory;

    public View(Tensor tensor) {
        memory = (HostMemory) tensor.memory();
        segment = HostMemory.segment(tensor);
        dtype = tensor.dtype();
        size = tensor.shape().size();
        last = tensor.shape().last();
        rows = tensor.shape().rows();
        height = tensor.shape().rank() < 2 ? 1 : tensor.shape().dim(-2);
    }

    public static View[] of(Tensor... tensors) {
        View[] views = new View[tensors.length];
        for (int i = 0; i < views.length; i++) {
            views[i] = new View(tensors[i]);
        }
        return views;
    }

    public float at(long i) {
        return dtype == DType.F32 ? segment.get(F32, 4 * i) : dtype.widen(segment.get(B16, 2 * i));
    }

    public int index(long i) {
        return segment.get(I32, 4 * i);
    }

    public void set(long i, float value) {
        if (dtype == DType.F32) {
            segment.set(F32, 4 * i, value);
        } else {
            setNarrow(i, dtype.narrow(value));
        }
    }

    private void setNarrow(long i, short bits) {
        segment.set(B16, 2 * i, bits);
        if (dtype == DType.F16 && (bits & 0x7c00) == 0x7c00) {
            memory.markSpecial();
        }
    }

    public void setIndex(long i, int value) {
        segment.set(I32, 4 * i, value);
    }

    /** Whether a half here may be infinite or NaN. */
    public boolean special() {
        return dtype == DType.F16 && memory.special();
    }

    /** Copies {@code count} elements of equal type to {@code to}, as they are. */
    public void copy(long from, View to, long at, long count) {
        int bytes = dtype.bytes();
        MemorySegment.copy(segment, bytes * from, to.segment, bytes * at, bytes * count);
        if (special()) {
            to.memory.markSpecial();
        }
    }

    /** Zeros, whatever the type. */
    public void clear(long from, long count) {
        int bytes = dtype.bytes();
        segment.asSlice(bytes * from, bytes * count).fill((byte) 0);
    }

    /** Elements {@code from..from+count-1} as floats. */
    public void load(long from, int count, float[] s, int at) {
        if (count == 0) {
            return;
        }
        switch (dtype) {
            case F32 -> MemorySegment.copy(segment, F32, 4 * from, s, at, count);
            case F16 -> loadF16(segment, 2 * from, count, s, at);
            case BF16 -> loadBf16(segment, 2 * from, count, s, at);
            case I32 -> {
                for (int i = 0; i < count; i++) {
                    s[at + i] = index(from + i);
                }
            }
            default -> loadBlocks(from, count, s, at);
        }
    }

    /** Stores floats as the tensor's type, rounding to nearest even. */
    public void store(long from, int count, float[] s, int at) {
        switch (dtype) {
            case F32 -> MemorySegment.copy(s, at, segment, F32, 4 * from, count);
            case F16, BF16 -> {
                for (int i = 0; i < count; i++) {
                    setNarrow(from + i, dtype.narrow(s[at + i]));
                }
            }
            case I32 -> {
                for (int i = 0; i < count; i++) {
                    setIndex(from + i, (int) s[at + i]);
                }
            }
            default -> throw new DeviceException("store: no operation writes " + dtype);
        }
    }

    /** Whole blocks straight to their place, the parts of blocks at either end by way of a block of their own. */
    private void loadBlocks(long from, int count, float[] s, int at) {
        int each = dtype.blockElements();
        int head = (int) Math.min(count, -from & each - 1);
        int whole = (count - head) / each * each;
        int tail = count - head - whole;
        if (head > 0) {
            loadPart(from, head, s, at);
        }
        if (whole > 0) {
            decode(from + head, whole, s, at + head);
        }
        if (tail > 0) {
            loadPart(from + head + whole, tail, s, at + head + whole);
        }
    }

    private void loadPart(long from, int count, float[] s, int at) {
        float[] block = new float[dtype.blockElements()];
        int skipped = (int) (from % block.length);
        decode(from - skipped, block.length, block, 0);
        System.arraycopy(block, skipped, s, at, count);
    }

    private void decode(long from, int count, float[] s, int at) {
        if (!Panels.has(dtype)) {
            ByteBuffer blocks =
                    segment.asSlice(dtype.bytes(from), dtype.bytes(count)).asByteBuffer();
            BlockFormat.of(dtype).decode(blocks, 0, s, at, count);
            return;
        }
        byte[] block = new byte[dtype.blockBytes()];
        for (int i = 0; i < count; i += dtype.blockElements()) {
            unpack((from + i) / last, (from + i) % last, block, 0);
            BlockFormat.of(dtype).decode(ByteBuffer.wrap(block), 0, s, at + i, dtype.blockElements());
        }
    }

    /** Blocks of a file into panels, all workers at it. */
    public void pack(Workers workers, ByteBuffer from) {
        MemorySegment file = MemorySegment.ofBuffer(from);
        if (file.byteSize() != segment.byteSize()) {
            throw new DeviceException(
                    "write: " + file.byteSize() + " bytes to a tensor " + dtype + " of " + segment.byteSize());
        }
        long row = dtype.bytes(last);
        long bands = Workers.count(height, Panels.ROWS);
        workers.run(bands == 0 ? 0 : rows / height * bands, (chunk, s, at) -> {
            long first = chunk % bands * Panels.ROWS;
            long start = (chunk / bands * height + first) * row;
            if (first + Panels.ROWS <= height) {
                Panels.of(dtype).pack(file, start, Panels.ROWS, last, segment, start);
            } else {
                MemorySegment.copy(file, start, segment, start, (height - first) * row);
            }
        });
    }

    /** The way back. */
    public void unpack(Workers workers, ByteBuffer to) {
        MemorySegment file = MemorySegment.ofBuffer(to);
        workers.run(rows, (r, s, at) -> {
            byte[] blocks = new byte[(int) dtype.bytes(last)];
            for (long k = 0; k < last; k += dtype.blockElements()) {
                unpack(r, k, blocks, (int) dtype.bytes(k));
            }
            MemorySegment.copy(blocks, 0, file, ValueLayout.JAVA_BYTE, r * blocks.length, blocks.length);
        });
    }

    private void unpack(long r, long k, byte[] block, int to) {
        long row = dtype.bytes(last);
        long inMatrix = r % height;
        long panel = inMatrix / Panels.ROWS * Panels.ROWS;
        if (panel + Panels.ROWS > height) {
            MemorySegment.copy(segment, ValueLayout.JAVA_BYTE, r * row + dtype.bytes(k), block, to, dtype.blockBytes());
        } else {
            int lane = (int) (inMatrix - panel);
            Panels.of(dtype).unpack(segment, (r - lane) * row, k, lane, block, to);
        }
    }

    private static void loadBf16(MemorySegment x, long offset, int count, float[] s, int at) {
        HostMemory.guard(x, offset);
        int whole = FLOATS.loopBound(count);
        for (int i = 0; i < whole; i += Lanes.WIDTH) {
            IntVector bits =
                    (IntVector) ShortVector.fromMemorySegment(SHORTS, x, offset + 2L * i, ByteOrder.LITTLE_ENDIAN)
                            .convertShape(VectorOperators.ZERO_EXTEND_S2I, INTS, 0);
            bits.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats().intoArray(s, at + i);
        }
        for (int i = whole; i < count; i++) {
            s[at + i] = DType.BF16.widen(x.get(B16, offset + 2L * i));
        }
    }

    /** Moving the bits into place leaves the exponent 112 too small, subnormals included; infinity and NaN need theirs full. */
    private static void loadF16(MemorySegment x, long offset, int count, float[] s, int at) {
        HostMemory.guard(x, offset);
        int whole = FLOATS.loopBound(count);
        for (int i = 0; i < whole; i += Lanes.WIDTH) {
            IntVector bits =
                    (IntVector) ShortVector.fromMemorySegment(SHORTS, x, offset + 2L * i, ByteOrder.LITTLE_ENDIAN)
                            .convertShape(VectorOperators.ZERO_EXTEND_S2I, INTS, 0);
            IntVector sign = bits.and(0x8000).lanewise(VectorOperators.LSHL, 16);
            IntVector magnitude = bits.and(0x7fff).lanewise(VectorOperators.LSHL, 13);
            VectorMask<Integer> special = magnitude.compare(VectorOperators.GE, 0x7c00 << 13);
            FloatVector scaled = magnitude.reinterpretAsFloats().mul(TWO_TO_112);
            IntVector value = scaled.reinterpretAsInts().blend(magnitude.or(0x7f800000), special);
            value.or(sign).reinterpretAsFloats().intoArray(s, at + i);
        }
        for (int i = whole; i < count; i++) {
            s[at + i] = DType.F16.widen(x.get(B16, offset + 2L * i));
        }
    }
}
