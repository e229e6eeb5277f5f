package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import java.nio.ByteBuffer;

/** {@link Int8Groups} with groups of 128 columns: quantized values, then scales. */
final class Int8Codec implements GroupCodec {
    static final Int8Codec INSTANCE = new Int8Codec();

    private static final int GROUP = Int8Groups.DEFAULT_GROUP;

    private Int8Codec() {}

    @Override
    public int group() {
        return GROUP;
    }

    @Override
    public int codeBits() {
        return 8;
    }

    @Override
    public void scales(PlanarMatrix matrix, int row, int count, int first, int groups, float[] out, int at, int lanes) {
        ByteBuffer in = MatrixCodec.littleEndian(matrix.planes());
        int scales = in.position() + matrix.rows() * matrix.columns();
        int perRow = matrix.columns() / GROUP;
        for (int i = 0; i < count; i++) {
            for (int g = 0; g < groups; g++) {
                out[at + g * lanes + i] = CodecMath.fp16(in, scales + Short.BYTES * ((row + i) * perRow + first + g));
            }
        }
    }

    @Override
    public void decode(ByteBuffer quants, int from, float scale, float[] out, int at) {
        for (int i = 0; i < GROUP; i++) {
            out[at + i] = quants.get(from + i) * scale;
        }
    }

    @Override
    public void encode(float[] w, int rows, int columns, ByteBuffer out) {
        Int8Groups coded = Int8Groups.encode(w, rows, columns, GROUP);
        MatrixCodec.plane(DType.INT8_128, out, rows, columns, 0).put(coded.quants());
        MatrixCodec.plane(DType.INT8_128, out, rows, columns, 1).asShortBuffer().put(coded.scales());
    }
}
