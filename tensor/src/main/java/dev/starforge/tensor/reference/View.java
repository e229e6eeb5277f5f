package dev.starforge.tensor.reference;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.codec.MatrixCodec;
import dev.starforge.tensor.host.HostMemory;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;

/** One tensor's elements by flat index, whatever they are stored as. */
final class View {
    private static final ValueLayout.OfFloat F32 = ValueLayout.JAVA_FLOAT_UNALIGNED;
    private static final ValueLayout.OfShort B16 = ValueLayout.JAVA_SHORT_UNALIGNED;
    private static final ValueLayout.OfInt I32 = ValueLayout.JAVA_INT_UNALIGNED;

    private final MemorySegment segment;
    private final Spec spec;
    private final DType dtype;
    private final float[][] decoded;
    final long size;
    final long last;
    final long rows;

    View(Tensor tensor) {
        segment = HostMemory.segment(tensor);
        spec = tensor.spec();
        dtype = tensor.dtype();
        size = tensor.shape().size();
        last = tensor.shape().last();
        rows = tensor.shape().rows();
        decoded = new float[dtype.isQuantized() ? Math.toIntExact(rows) : 0][];
    }

    double at(long i) {
        return switch (dtype) {
            case F32 -> segment.get(F32, 4 * i);
            case F16, BF16 -> dtype.widen(segment.get(B16, 2 * i));
            case I32 -> segment.get(I32, 4 * i);
            case I8 -> segment.get(ValueLayout.JAVA_BYTE, i);
            default -> decoded((int) (i / last))[(int) (i % last)];
        };
    }

    /** One row of a quantized tensor, decoded when it is first asked for. */
    private float[] decoded(int row) {
        if (decoded[row] == null) {
            decoded[row] = decode(row);
        }
        return decoded[row];
    }

    private float[] decode(int row) {
        float[] values = new float[Math.toIntExact(last)];
        if (dtype.isPlanar()) {
            long bytes = spec.matrixBytes();
            int height = (int) spec.height();
            MemorySegment matrix = segment.asSlice(row / height * bytes, bytes);
            MatrixCodec.of(dtype).decode(matrix.asByteBuffer(), height, (int) last, row % height, values);
        } else {
            long bytes = dtype.bytes(last);
            ByteBuffer blocks = segment.asSlice(row * bytes, bytes).asByteBuffer();
            BlockFormat.of(dtype).decode(blocks, 0, values, 0, values.length);
        }
        return values;
    }

    int index(long i) {
        return segment.get(I32, 4 * i);
    }

    void set(long i, double value) {
        switch (dtype) {
            case F32 -> segment.set(F32, 4 * i, (float) value);
            case F16, BF16 -> segment.set(B16, 2 * i, dtype.narrow((float) value));
            case I32 -> segment.set(I32, 4 * i, (int) value);
            case I8 -> segment.set(ValueLayout.JAVA_BYTE, i, (byte) value);
            default -> throw new TensorException("set: an element of " + dtype + " cannot be set alone");
        }
    }

    void setIndex(long i, int value) {
        segment.set(I32, 4 * i, value);
    }

    void fill(double value) {
        for (long i = 0; i < size; i++) {
            set(i, value);
        }
    }
}
