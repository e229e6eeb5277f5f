package dev.starforge.cpu.core;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.codec.PlanarCodec;
import dev.starforge.tensor.codec.PlanarMatrix;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.host.HostMemory;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
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
    private static final VectorSpecies<Byte> BYTES =
            VectorSpecies.of(byte.class, VectorShape.forBitSize(Math.max(64, Lanes.WIDTH * Byte.SIZE)));

    public final MemorySegment segment;
    public final DType dtype;
    public final long size;
    public final long last;
    public final long rows;
    public final long height;
    private final long matrixBytes; // of a quantized matrix

    public View(Tensor tensor) {
        segment = HostMemory.segment(tensor);
        dtype = tensor.dtype();
        size = tensor.shape().size();
        last = tensor.shape().last();
        rows = tensor.shape().rows();
        height = tensor.spec().height();
        matrixBytes = dtype.isQuantized() ? tensor.spec().matrixBytes() : 0;
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
            segment.set(B16, 2 * i, dtype.narrow(value));
        }
    }

    public void setIndex(long i, int value) {
        segment.set(I32, 4 * i, value);
    }

    /** Copies {@code count} elements of equal type to {@code to}, as they are. */
    public void copy(long from, View to, long at, long count) {
        int bytes = dtype.bytes();
        MemorySegment.copy(segment, bytes * from, to.segment, bytes * at, bytes * count);
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
            case I8 -> loadI8(segment, from, count, s, at);
            default -> loadBlocks(from, count, s, at);
        }
    }

    /** Pairs of consecutive bf16 elements, each pair in the bits of a float. */
    public void loadPairs(long from, int pairs, float[] s, int at) {
        MemorySegment.copy(segment, F32, 2 * from, s, at, pairs);
    }

    /** The same of two rows of bf16, whose elements are paired. */
    public void loadPairs(long first, long second, int pairs, float[] s, int at) {
        HostMemory.guard(segment, 2 * first);
        int whole = FLOATS.loopBound(pairs);
        for (int i = 0; i < whole; i += Lanes.WIDTH) {
            IntVector low = words(segment, 2 * (first + i));
            IntVector high = words(segment, 2 * (second + i));
            low.or(high.lanewise(VectorOperators.LSHL, 16))
                    .reinterpretAsFloats()
                    .intoArray(s, at + i);
        }
        for (int i = whole; i < pairs; i++) {
            int low = segment.get(B16, 2 * (first + i)) & 0xffff;
            s[at + i] = Float.intBitsToFloat(low | segment.get(B16, 2 * (second + i)) << 16);
        }
    }

    /** Stores floats as the tensor's type, rounding to nearest even. */
    public void store(long from, int count, float[] s, int at) {
        switch (dtype) {
            case F32 -> MemorySegment.copy(s, at, segment, F32, 4 * from, count);
            case F16, BF16 -> {
                for (int i = 0; i < count; i++) {
                    segment.set(B16, 2 * (from + i), dtype.narrow(s[at + i]));
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
        if (dtype.isPlanar()) {
            for (int i = 0; i < count; ) {
                int part = (int) Math.min(count - i, last - (from + i) % last);
                decodeRow(from + i, part, s, at + i);
                i += part;
            }
            return;
        }
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

    /** A part of one row of a planar type. */
    private void decodeRow(long from, int count, float[] s, int at) {
        PlanarMatrix matrix = new PlanarMatrix(matrix(from), (int) height, (int) last);
        int row = (int) (from / last % height);
        int column = (int) (from % last);
        ByteBuffer quants = ByteBuffer.allocate((int) panels().rowBytes(count));
        for (int i = 0; i < count; i += dtype.blockElements()) {
            unpack(from / last, column + i, quants.array(), (int) panels().rowBytes(i));
        }
        PlanarCodec.of(dtype).decode(quants, 0, matrix, row, column, count, s, at);
    }

    private Panels panels() {
        return Panels.of(dtype);
    }

    /** Where, in bytes, the quantized matrix begins that an element is in. */
    public long matrixAt(long element) {
        return element / Math.max(1, height * last) * matrixBytes;
    }

    /**
     * The planes of the matrix that contains an element, in this device's layout: all but the first are those of the
     * format.
     */
    public ByteBuffer matrix(long element) {
        return segment.asSlice(matrixAt(element), matrixBytes).asByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    }

    /**
     * Copies a range of a tensor stored in panels, with all workers. A panel has the size of its rows in the tensor's
     * planes. If a chunk ends inside a panel, the rows stay unpacked, and the chunk that completes the panel packs
     * them.
     */
    public void write(Workers workers, long from, ByteBuffer piece) {
        MemorySegment source = MemorySegment.ofBuffer(piece);
        long end = from + source.byteSize();
        long panel = panels().at(last);
        long whole = height / Panels.ROWS;
        long parts = whole + 1; // of a matrix: its panels, and what stays as it is
        if (source.byteSize() == 0) {
            return;
        }
        long first = part(from, panel, whole);
        workers.run(part(end - 1, panel, whole) + 1 - first, (chunk, s, at) -> {
            long part = first + chunk;
            long start = part / parts * matrixBytes + part % parts * panel;
            long stop = part % parts < whole ? start + panel : (part / parts + 1) * matrixBytes;
            if (part % parts < whole && start >= from && stop <= end) {
                panels().pack(source, start - from, Panels.ROWS, last, segment, start);
                return;
            }
            long begin = Math.max(start, from);
            MemorySegment.copy(source, begin - from, segment, begin, Math.min(stop, end) - begin);
            if (part % parts < whole && stop <= end) {
                byte[] rows = segment.asSlice(start, panel).toArray(ValueLayout.JAVA_BYTE);
                panels().pack(MemorySegment.ofArray(rows), 0, Panels.ROWS, last, segment, start);
            }
        });
    }

    /** The number of the panel that a byte belongs to, counting what follows the panels of a matrix as one. */
    private long part(long at, long panel, long whole) {
        return at / matrixBytes * (whole + 1) + Math.min(at % matrixBytes / Math.max(1, panel), whole);
    }

    /** The way back. */
    public void read(Workers workers, ByteBuffer to) {
        MemorySegment file = MemorySegment.ofBuffer(to);
        long row = panels().rowBytes(last);
        workers.run(rows, (r, s, at) -> {
            byte[] blocks = new byte[(int) row];
            for (long k = 0; k < last; k += dtype.blockElements()) {
                unpack(r, k, blocks, (int) panels().rowBytes(k));
            }
            long start = r / height * matrixBytes + r % height * row;
            MemorySegment.copy(blocks, 0, file, ValueLayout.JAVA_BYTE, start, blocks.length);
        });
        long rest = matrixBytes - height * row;
        for (long i = 0; height > 0 && i < rows / height && rest > 0; i++) {
            long start = i * matrixBytes + height * row;
            MemorySegment.copy(segment, start, file, start, rest);
        }
    }

    private void unpack(long r, long k, byte[] block, int to) {
        long row = panels().rowBytes(last);
        long inMatrix = r % height;
        long start = r / height * matrixBytes;
        long panel = inMatrix / Panels.ROWS * Panels.ROWS;
        if (panel + Panels.ROWS > height) {
            long from = start + inMatrix * row + panels().rowBytes(k);
            MemorySegment.copy(segment, ValueLayout.JAVA_BYTE, from, block, to, panels().bytes());
        } else {
            panels().unpack(segment, start + panel * row, k, (int) (inMatrix - panel), block, to);
        }
    }

    private static void loadI8(MemorySegment x, long offset, int count, float[] s, int at) {
        HostMemory.guard(x, offset);
        int whole = BYTES.loopBound(count);
        for (int i = 0; i < whole; i += BYTES.length()) {
            ByteVector bytes = ByteVector.fromMemorySegment(BYTES, x, offset + i, ByteOrder.LITTLE_ENDIAN);
            for (int part = 0; part < BYTES.length() / Lanes.WIDTH; part++) {
                FloatVector floats = (FloatVector) bytes.convertShape(VectorOperators.B2F, FLOATS, part);
                floats.intoArray(s, at + i + part * Lanes.WIDTH);
            }
        }
        for (int i = whole; i < count; i++) {
            s[at + i] = x.get(ValueLayout.JAVA_BYTE, offset + i);
        }
    }

    private static IntVector words(MemorySegment x, long offset) {
        return (IntVector) ShortVector.fromMemorySegment(SHORTS, x, offset, ByteOrder.LITTLE_ENDIAN)
                .convertShape(VectorOperators.ZERO_EXTEND_S2I, INTS, 0);
    }

    private static void loadBf16(MemorySegment x, long offset, int count, float[] s, int at) {
        HostMemory.guard(x, offset);
        int whole = FLOATS.loopBound(count);
        for (int i = 0; i < whole; i += Lanes.WIDTH) {
            words(x, offset + 2L * i)
                    .lanewise(VectorOperators.LSHL, 16)
                    .reinterpretAsFloats()
                    .intoArray(s, at + i);
        }
        for (int i = whole; i < count; i++) {
            s[at + i] = DType.BF16.widen(x.get(B16, offset + 2L * i));
        }
    }

    /** The compiler has a vector instruction for this loop where there is one. */
    private static void loadF16(MemorySegment x, long offset, int count, float[] s, int at) {
        for (int i = 0; i < count; i++) {
            s[at + i] = Float.float16ToFloat(x.get(B16, offset + 2L * i));
        }
    }
}
