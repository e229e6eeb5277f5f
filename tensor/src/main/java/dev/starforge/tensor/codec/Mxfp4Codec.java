package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/**
 * MXFP4 in the layout of GGUF: an exponent byte and 16 bytes whose low nibbles are the first half of the block and high
 * nibbles the second. Decoding uses integers (twice the value), so minus zero decodes to zero. {@link Fp4Groups} stores
 * consecutive values in one byte, as safetensors files do.
 */
record Mxfp4Codec() implements BlockCodec {
    private static final int HALF = 16;
    private static final int BYTES = 1 + HALF;

    @Override
    public void decode(ByteBuffer in, int from, float[] out, int at, int blocks) {
        for (int b = 0; b < blocks; b++, from += BYTES, at += 2 * HALF) {
            float scale = Math.scalb(1f, CodecMath.unsigned(in, from) - 128);
            for (int i = 0; i < HALF; i++) {
                int pair = in.get(from + 1 + i);
                out[at + i] = (int) (2 * E2m1.value(pair)) * scale;
                out[at + i + HALF] = (int) (2 * E2m1.value(pair >> 4)) * scale;
            }
        }
    }

    @Override
    public void encode(float[] in, int at, ByteBuffer out, int to, int blocks) {
        for (int b = 0; b < blocks; b++, to += BYTES, at += 2 * HALF) {
            int exponent = E2m1.exponent(CodecMath.absmax(in, at, 2 * HALF));
            float scale = Fp8.power((byte) exponent);
            out.put(to, (byte) exponent);
            for (int i = 0; i < HALF; i++) {
                int low = E2m1.nearest(in[at + i] / scale);
                int high = E2m1.nearest(in[at + i + HALF] / scale);
                out.put(to + 1 + i, (byte) (low | high << 4));
            }
        }
    }
}
