package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import java.nio.ByteBuffer;

/**
 * The codec of a planar type, whose first plane has the codes, row after row. A device may lay out the codes as it likes and
 * keep the other planes.
 */
public sealed interface PlanarCodec extends MatrixCodec permits GroupCodec, GptqCodec {
    static PlanarCodec of(DType type) {
        return (PlanarCodec) MatrixCodec.of(type);
    }

    /** The bits of a code. */
    int codeBits();

    /** As below, with the codes of these elements from byte {@code from} of another buffer on. */
    void decode(
            ByteBuffer codes,
            int from,
            ByteBuffer matrix,
            int rows,
            int columns,
            int row,
            int column,
            int count,
            float[] out,
            int at);

    @Override
    default void decode(ByteBuffer matrix, int rows, int columns, int row, int column, int count, float[] out, int at) {
        int from = matrix.position() + (int) (((long) row * columns + column) * codeBits() / Byte.SIZE);
        decode(matrix, from, matrix, rows, columns, row, column, count, out, at);
    }
}
