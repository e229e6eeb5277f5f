package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/** Q8_0: a scale and 32 signed bytes; ties round away from zero. */
record Q8Codec() implements BlockCodec {
    private static final int SIZE = 32;
    private static final int BYTES = 2 + SIZE;

    @Override
    public void decode(ByteBuffer in, int from, float[] out, int at, int blocks) {
        for (int b = 0; b < blocks; b++, from += BYTES, at += SIZE) {
            float d = CodecMath.fp16(in, from);
            for (int i = 0; i < SIZE; i++) {
                out[at + i] = in.get(from + 2 + i) * d;
            }
        }
    }

    @Override
    public void encode(float[] in, int at, ByteBuffer out, int to, int blocks) {
        for (int b = 0; b < blocks; b++, to += BYTES, at += SIZE) {
            float d = CodecMath.absmax(in, at, SIZE) / 127;
            float inverse = CodecMath.inverse(d);
            CodecMath.putFp16(out, to, d);
            for (int i = 0; i < SIZE; i++) {
                double scaled = in[at + i] * inverse;
                out.put(to + 2 + i, (byte) (scaled + Math.copySign(0.5, scaled)));
            }
        }
    }
}
