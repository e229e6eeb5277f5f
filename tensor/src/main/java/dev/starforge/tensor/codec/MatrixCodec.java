package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Plane;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;

/**
 * Encodes and decodes the {@link DType#planes planes} of a matrix of a weight type. Planar types have their own codecs;
 * a matrix of a {@link BlockFormat} is stored as its blocks, row by row. A buffer contains one matrix from its position
 * on and is read as little-endian, whatever its byte order.
 */
public sealed interface MatrixCodec permits MatrixCodec.Blocks, PlanarCodec {
    /** Decodes {@code count} elements of a row from {@code column} on; both are multiples of the type's block. */
    void decode(ByteBuffer matrix, int rows, int columns, int row, int column, int count, float[] out, int at);

    /** Quantizes each weight as the format's original quantizer does. Requires finite values. */
    void encode(float[] w, int rows, int columns, ByteBuffer out);

    /** Decodes a whole row. */
    default void decode(ByteBuffer matrix, int rows, int columns, int row, float[] out) {
        decode(matrix, rows, columns, row, 0, columns, out, 0);
    }

    /** Decodes all rows. */
    default float[] decode(ByteBuffer matrix, int rows, int columns) {
        float[] w = new float[Math.multiplyExact(rows, columns)];
        for (int row = 0; row < rows; row++) {
            decode(matrix, rows, columns, row, 0, columns, w, row * columns);
        }
        return w;
    }

    static MatrixCodec of(DType type) {
        return switch (type) {
            case NF4_DOUBLE -> Nf4DoubleCodec.INSTANCE;
            case INT8_128 -> Int8Codec.INSTANCE;
            case GPTQ_32, GPTQ_64, GPTQ_128, GPTQ_CHANNEL -> new GptqCodec(type);
            default -> new Blocks(BlockFormat.of(type));
        };
    }

    /** Returns a plane of a matrix as a separate buffer. */
    static ByteBuffer plane(DType type, ByteBuffer matrix, int rows, int columns, int number) {
        List<Plane> planes = type.planes(rows, columns);
        long at = 0;
        for (int i = 0; i < number; i++) {
            at += planes.get(i).bytes();
        }
        long bytes = planes.get(number).bytes();
        if (at + bytes > matrix.remaining()) {
            throw new TensorException(type + "[" + rows + ", " + columns + "]: "
                    + planes.get(number).name() + " end at byte " + (at + bytes) + " of " + matrix.remaining());
        }
        return matrix.slice(matrix.position() + (int) at, (int) bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    static ByteBuffer littleEndian(ByteBuffer matrix) {
        return matrix.order() == ByteOrder.LITTLE_ENDIAN
                ? matrix
                : matrix.duplicate().order(ByteOrder.LITTLE_ENDIAN);
    }

    /** A matrix whose rows are independent sequences of blocks. */
    record Blocks(BlockFormat format) implements MatrixCodec {
        @Override
        public void decode(
                ByteBuffer matrix, int rows, int columns, int row, int column, int count, float[] out, int at) {
            long from = matrix.position() + format.bytes((long) row * columns + column);
            format.decode(matrix, Math.toIntExact(from), out, at, count);
        }

        @Override
        public void encode(float[] w, int rows, int columns, ByteBuffer out) {
            format.encode(w, 0, Math.multiplyExact(rows, columns), out, out.position());
        }
    }
}
