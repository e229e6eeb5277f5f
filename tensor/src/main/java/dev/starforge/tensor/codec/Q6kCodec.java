package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Q6_K: 256 weights in sixteen sub-blocks of 16, each with a signed byte as scale in units of the block's d; a weight is
 * {@code (d * scale) * (q - 32)}. A block is 128 bytes of low nibbles (byte i of a half's 64 holds elements i and i + 64
 * of that half of the block), 64 bytes of the upper two bits ({@link KQuantTwoBits}), the scales and d.
 */
record Q6kCodec() implements WeightedBlockCodec {
    private static final int SUB = 16;
    private static final int SUBS = 16;
    private static final int UPPER = 128;
    private static final int SCALES = UPPER + 64;
    private static final int D = SCALES + SUBS;
    private static final int BYTES = D + 2;

    @Override
    public void decode(ByteBuffer in, int from, float[] out, int at, int blocks) {
        for (int b = 0; b < blocks; b++, from += BYTES, at += SUB * SUBS) {
            float d = CodecMath.fp16(in, from + D);
            for (int s = 0; s < SUBS; s++) {
                float scale = d * in.get(from + SCALES + s);
                for (int i = s * SUB; i < (s + 1) * SUB; i++) {
                    int low = in.get(from + nibble(i)) >> shift(i) & 15;
                    out[at + i] = scale * ((low | KQuantTwoBits.get(in, from + UPPER, i) << 4) - 32);
                }
            }
        }
    }

    @Override
    public void encode(float[] in, int at, ByteBuffer out, int to, int blocks) {
        for (int b = 0; b < blocks; b++, to += BYTES, at += SUB * SUBS) {
            float[] scales = new float[SUBS];
            for (int s = 0; s < SUBS; s++) {
                float[] weights = ScaleSearch.squares(in, at + s * SUB, SUB);
                scales[s] = ScaleSearch.symmetric(in, at + s * SUB, weights, 32).scale();
            }
            write(in, at, scales, out, to);
        }
    }

    @Override
    public void encode(float[] in, int at, float[] importance, ByteBuffer out, int to) {
        for (int column = 0; column < importance.length; column += SUB * SUBS, to += BYTES) {
            float[] scales = new float[SUBS];
            for (int s = 0; s < SUBS; s++) {
                int from = column + s * SUB;
                float[] weights = Arrays.copyOfRange(importance, from, from + SUB);
                scales[s] = ScaleSearch.symmetric(in, at + from, weights, 32).scale();
            }
            write(in, at + column, scales, out, to);
        }
    }

    private static void write(float[] in, int at, float[] scales, ByteBuffer out, int to) {
        float extreme = CodecMath.extreme(scales, 0, SUBS);
        float perScale = extreme == 0 ? 0 : -128 / extreme;
        CodecMath.putFp16(out, to + D, CodecMath.inverse(perScale));
        float d = CodecMath.fp16(out, to + D);
        int[] quants = new int[SUB * SUBS];
        for (int s = 0; s < SUBS; s++) {
            int scale = CodecMath.nearest(perScale * scales[s], -128, 127);
            out.put(to + SCALES + s, (byte) scale);
            float step = d * scale;
            for (int i = s * SUB; i < (s + 1) * SUB && step != 0; i++) {
                quants[i] = CodecMath.nearest(in[at + i] / step, -32, 31) + 32;
            }
        }
        int[] upper = new int[quants.length];
        for (int i = 0; i < quants.length; i++) {
            upper[i] = quants[i] >> 4;
            if (shift(i) == 0) {
                out.put(to + nibble(i), (byte) (quants[i] & 15 | (quants[i + 64] & 15) << 4));
            }
        }
        KQuantTwoBits.put(out, to + UPPER, upper);
    }

    private static int nibble(int i) {
        return i / 128 * 64 + i % 64;
    }

    private static int shift(int i) {
        return i % 128 / 64 * 4;
    }
}
