package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/** A planar type whose weights are a dequantized value times the scale of a group of consecutive columns. */
public sealed interface GroupCodec extends PlanarCodec permits Nf4DoubleCodec, Int8Codec {
    /** Columns that share a scale. */
    int group();

    /**
     * Scales of {@code groups} groups, from group {@code first} of its row on, of {@code count} rows from {@code row} on: for
     * each group those of all rows, then, {@code lanes} further, those of the next.
     */
    void scales(
            ByteBuffer matrix,
            int rows,
            int columns,
            int row,
            int count,
            int first,
            int groups,
            float[] out,
            int at,
            int lanes);

    /** The weights of one group: its quantized values from byte {@code from} on, times its scale. */
    void decode(ByteBuffer codes, int from, float scale, float[] out, int at);

    @Override
    default void decode(
            ByteBuffer codes,
            int from,
            ByteBuffer matrix,
            int rows,
            int columns,
            int row,
            int column,
            int count,
            float[] out,
            int at) {
        float[] scales = new float[count / group()];
        scales(matrix, rows, columns, row, 1, column / group(), scales.length, scales, 0, 1);
        for (int g = 0; g < scales.length; g++) {
            decode(codes, from + g * group() * codeBits() / Byte.SIZE, scales[g], out, at + g * group());
        }
    }
}
