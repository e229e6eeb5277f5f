package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import java.nio.ByteBuffer;

/**
 * The codec of a planar type. Its first plane has the quantized values, row by row; a device may store that plane in another
 * layout.
 */
public sealed interface PlanarCodec extends MatrixCodec permits GroupCodec, GptqCodec {
    static PlanarCodec of(DType type) {
        return (PlanarCodec) MatrixCodec.of(type);
    }

    /** Bits of a quantized value. */
    int codeBits();

    /** Decodes with the quantized values of these elements from byte {@code from} of a separate buffer on. */
    void decode(ByteBuffer quants, int from, PlanarMatrix matrix, int row, int column, int count, float[] out, int at);

    @Override
    default void decode(ByteBuffer matrix, int rows, int columns, int row, int column, int count, float[] out, int at) {
        int from = matrix.position() + (int) (((long) row * columns + column) * codeBits() / Byte.SIZE);
        decode(matrix, from, new PlanarMatrix(matrix, rows, columns), row, column, count, out, at);
    }
}
