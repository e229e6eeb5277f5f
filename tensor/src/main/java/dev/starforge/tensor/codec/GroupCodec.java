package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/**
 * A planar type whose first plane has the codes, row after row, and whose weights are what a code stands for times the scale
 * of its group of neighbours. A device may lay the codes out as it likes and ask here for scales, which stay.
 */
public sealed interface GroupCodec extends MatrixCodec permits Nf4DoubleCodec, Int8Codec {
    /** Columns that share a scale. */
    int group();

    /** The bytes of the codes of a group. */
    int codeBytes();

    /**
     * Scales of {@code groups} groups, from group {@code first} of its row on, of {@code count} rows from {@code row} on: for
     * each group those of all rows, and so many {@code lanes} on those of the next.
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

    /** The weights of one group: its codes from byte {@code from} on, times its scale. */
    void decode(ByteBuffer codes, int from, float scale, float[] out, int at);

    @Override
    default void decode(ByteBuffer matrix, int rows, int columns, int row, int column, int count, float[] out, int at) {
        int first = column / group();
        int groups = count / group();
        float[] scales = new float[groups];
        scales(matrix, rows, columns, row, 1, first, groups, scales, 0, 1);
        int from = matrix.position() + (row * (columns / group()) + first) * codeBytes();
        for (int g = 0; g < groups; g++) {
            decode(matrix, from + g * codeBytes(), scales[g], out, at + g * group());
        }
    }
}
