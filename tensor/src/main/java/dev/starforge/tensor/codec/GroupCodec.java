package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/** A planar type whose weights are a dequantized value times the scale of a group of consecutive columns. */
public sealed interface GroupCodec extends PlanarCodec permits Nf4DoubleCodec, Int8Codec {
    /** Returns the number of columns per scale. */
    int group();

    /**
     * Decodes the scales of {@code groups} groups from {@code first} on for {@code count} rows from {@code row} on,
     * group by group; groups are {@code lanes} elements apart.
     */
    void scales(PlanarMatrix matrix, int row, int count, int first, int groups, float[] out, int at, int lanes);

    /** Decodes the weights of one group: its quantized values from byte {@code from} on, times its scale. */
    void decode(ByteBuffer quants, int from, float scale, float[] out, int at);

    @Override
    default void decode(
            ByteBuffer quants, int from, PlanarMatrix matrix, int row, int column, int count, float[] out, int at) {
        float[] scales = new float[count / group()];
        scales(matrix, row, 1, column / group(), scales.length, scales, 0, 1);
        for (int g = 0; g < scales.length; g++) {
            decode(quants, from + g * group() * codeBits() / Byte.SIZE, scales[g], out, at + g * group());
        }
    }
}
