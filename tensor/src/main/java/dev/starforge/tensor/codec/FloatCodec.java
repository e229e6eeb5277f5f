package dev.starforge.tensor.codec;

import dev.starforge.tensor.DType;
import java.nio.ByteBuffer;

/** Plain floats: a block of one element and no scale. */
enum FloatCodec implements BlockCodec {
    F32(DType.F32),
    F16(DType.F16),
    BF16(DType.BF16);

    private final DType type;

    FloatCodec(DType type) {
        this.type = type;
    }

    @Override
    public void decode(ByteBuffer in, int from, float[] out, int at, int blocks) {
        for (int i = 0; i < blocks; i++) {
            out[at + i] = type == DType.F32 ? in.getFloat(from + 4 * i) : type.widen(in.getShort(from + 2 * i));
        }
    }

    @Override
    public void encode(float[] in, int at, ByteBuffer out, int to, int blocks) {
        for (int i = 0; i < blocks; i++) {
            if (type == DType.F32) {
                out.putFloat(to + 4 * i, in[at + i]);
            } else {
                out.putShort(to + 2 * i, type.narrow(in[at + i]));
            }
        }
    }
}
