package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import java.nio.ByteBuffer;

/**
 * {@link Nf4} with double quantization and the block sizes and map of bitsandbytes. The planes are: quantized values,
 * the absmax of each 256 absmax values, their mean, and the quantized absmax values.
 */
final class Nf4DoubleCodec implements GroupCodec {
    static final Nf4DoubleCodec INSTANCE = new Nf4DoubleCodec();

    private static final int BLOCK = Nf4.DEFAULT_BLOCK;
    private static final float[] MAP = Nf4.dynamicMap();

    private Nf4DoubleCodec() {}

    @Override
    public int group() {
        return BLOCK;
    }

    @Override
    public int codeBits() {
        return 4;
    }

    @Override
    public void scales(PlanarMatrix matrix, int row, int count, int first, int groups, float[] out, int at, int lanes) {
        ByteBuffer in = MatrixCodec.littleEndian(matrix.planes());
        int weights = matrix.rows() * matrix.columns();
        int nested = in.position() + weights / 2;
        int mean = nested + Float.BYTES * Math.ceilDiv(weights / BLOCK, Nf4.NESTED_BLOCK);
        int quants = mean + Float.BYTES;
        float offset = in.getFloat(mean);
        int perRow = matrix.columns() / BLOCK;
        for (int i = 0; i < count; i++) {
            int block = (row + i) * perRow + first;
            for (int g = 0; g < groups; g++, block++) {
                float unit = in.getFloat(nested + Float.BYTES * (block / Nf4.NESTED_BLOCK));
                out[at + g * lanes + i] = MAP[in.get(quants + block) & 0xff] * unit + offset;
            }
        }
    }

    @Override
    public void decode(ByteBuffer quants, int from, float scale, float[] out, int at) {
        for (int i = 0; i < BLOCK; i += 2) {
            int pair = quants.get(from + i / 2);
            out[at + i] = Nf4.value(pair >> 4 & 15) * scale;
            out[at + i + 1] = Nf4.value(pair & 15) * scale;
        }
    }

    @Override
    public void encode(float[] w, int rows, int columns, ByteBuffer out) {
        Nf4 coded = Nf4.encodeDouble(w, BLOCK);
        Nf4.Absmax.Nested absmax = (Nf4.Absmax.Nested) coded.absmax();
        MatrixCodec.plane(DType.NF4_DOUBLE, out, rows, columns, 0).put(coded.quants());
        MatrixCodec.plane(DType.NF4_DOUBLE, out, rows, columns, 1)
                .asFloatBuffer()
                .put(absmax.absmax());
        MatrixCodec.plane(DType.NF4_DOUBLE, out, rows, columns, 2).putFloat(absmax.offset());
        MatrixCodec.plane(DType.NF4_DOUBLE, out, rows, columns, 3).put(absmax.quants());
    }
}
