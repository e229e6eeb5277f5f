package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.codec.Int8Groups;
import dev.starforge.tensor.codec.Nf4;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * Quantizes a matrix of floats into the planes of a quantized type, in chunks. The quantized values come first, encoded
 * by several threads while the weights are read; each group has its own scale. The scales, one for 64 or 128 values,
 * are kept in memory and come last. One pass is enough, and the whole matrix is never in memory.
 */
public final class PlaneEncoder {
    /** Elements that one thread quantizes at a time (at least one row), and the number of such parts in a chunk. */
    private static final int PART = 1 << 17;

    private static final int PARTS = 8;

    private PlaneEncoder() {}

    /** Returns true if the quantized values of a type depend on the values of their group only. */
    public static boolean stream(DType type) {
        return type == DType.NF4_DOUBLE || type == DType.INT8_128;
    }

    /** Passes the bytes of all planes to {@code piece}, in order. The buffer is valid only during the call. */
    public static void encode(WeightSource source, String name, Spec as, Consumer<ByteBuffer> piece) {
        switch (as.dtype()) {
            case NF4_DOUBLE -> nf4(source, name, as.shape(), piece);
            case INT8_128 -> int8(source, name, as.shape(), piece);
            default ->
                throw new ModelException(source.path(), "tensor " + name + " cannot be encoded in chunks as " + as);
        }
    }

    private static void nf4(WeightSource source, String name, Shape shape, Consumer<ByteBuffer> piece) {
        int block = Nf4.DEFAULT_BLOCK;
        float[] absmax = new float[Math.toIntExact(shape.size() / block)];
        quants(source, name, shape, 2, piece, (first, values, out) -> {
            Nf4 coded = Nf4.encode(values, block);
            out.put(coded.quants());
            for (int b = 0; b < coded.absmax().blocks(); b++) {
                absmax[(int) (first / block) + b] = coded.absmax().at(b);
            }
        });
        Nf4.Absmax.Nested nested = Nf4.nest(absmax);
        ByteBuffer units = littleEndian(Float.BYTES * (nested.absmax().length + 1));
        units.asFloatBuffer().put(nested.absmax()).put(nested.offset());
        piece.accept(units);
        piece.accept(ByteBuffer.wrap(nested.quants()));
    }

    private static void int8(WeightSource source, String name, Shape shape, Consumer<ByteBuffer> piece) {
        int group = Int8Groups.DEFAULT_GROUP;
        ByteBuffer scales = littleEndian(Short.BYTES * Math.toIntExact(shape.size() / group));
        quants(source, name, shape, 1, piece, (first, values, out) -> {
            Int8Groups coded = Int8Groups.encode(values, values.length / group, group, group);
            out.put(coded.quants());
            scales.asShortBuffer().put((int) (first / group), coded.scales());
        });
        piece.accept(scales);
    }

    private static ByteBuffer littleEndian(int bytes) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** Quantizes weights from element {@code first} on and stores the quantized values. */
    private interface Coder {
        void encode(long first, float[] values, ByteBuffer out);
    }

    private static void quants(
            WeightSource source, String name, Shape shape, int perByte, Consumer<ByteBuffer> piece, Coder coder) {
        int width = Math.toIntExact(shape.last());
        int each = Math.max(1, PART / width);
        int step = each * PARTS;
        for (long row = 0; row < shape.dim(0); row += step) {
            int rows = (int) Math.min(step, shape.dim(0) - row);
            ByteBuffer quants = ByteBuffer.allocate(rows * width / perByte);
            long begin = row;
            IntStream.range(0, Math.ceilDiv(rows, each)).parallel().forEach(part -> {
                long first = begin + (long) part * each;
                int count = (int) Math.min(each, begin + rows - first) * width;
                float[] values = new float[count];
                synchronized (source) { // reading floats is not thread-safe
                    source.read(name, first * width, values, count);
                }
                try {
                    coder.encode(first * width, values, quants.slice(part * each * width / perByte, count / perByte));
                } catch (TensorException wrong) {
                    throw new ModelException(
                            source.path(), "tensor " + name + " from row " + first + ": " + wrong.getMessage(), wrong);
                }
            });
            piece.accept(quants);
        }
    }
}
