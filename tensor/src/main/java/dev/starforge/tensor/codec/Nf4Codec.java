package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/**
 * {@link Nf4} in independent blocks: a float32 absmax, then the quantized values of 64 weights, two per byte, the first
 * in the high nibble. The values equal those of bitsandbytes without double quantization.
 */
final class Nf4Codec implements BlockCodec {
    private static final int SIZE = Nf4.DEFAULT_BLOCK;
    private static final int BYTES = Float.BYTES + SIZE / 2;

    @Override
    public void decode(ByteBuffer in, int from, float[] out, int at, int blocks) {
        for (int block = 0; block < blocks; block++) {
            float absmax = in.getFloat(from);
            for (int i = 0; i < SIZE; i += 2) {
                int pair = in.get(from + Float.BYTES + i / 2);
                out[at + i] = Nf4.value(pair >> 4 & 15) * absmax;
                out[at + i + 1] = Nf4.value(pair & 15) * absmax;
            }
            from += BYTES;
            at += SIZE;
        }
    }

    @Override
    public void encode(float[] in, int at, ByteBuffer out, int to, int blocks) {
        for (int block = 0; block < blocks; block++) {
            float absmax = CodecMath.absmax(in, at, SIZE);
            float inverse = CodecMath.inverse(absmax);
            out.putFloat(to, absmax);
            for (int i = 0; i < SIZE; i += 2) {
                int pair = Nf4.code(in[at + i] * inverse) << 4 | Nf4.code(in[at + i + 1] * inverse);
                out.put(to + Float.BYTES + i / 2, (byte) pair);
            }
            to += BYTES;
            at += SIZE;
        }
    }
}
