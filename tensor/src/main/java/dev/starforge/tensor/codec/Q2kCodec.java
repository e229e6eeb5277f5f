package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/**
 * Q2_K: 256 weights in sixteen sub-blocks of 16, each with a four-bit scale (low nibble) and offset (high nibble) in
 * units of the block's d and m; a weight is {@code (d * scale) * q - (m * offset)}. A block is sixteen bytes of scales,
 * 64 bytes of quantized values ({@link KQuantTwoBits}), d and m.
 */
record Q2kCodec() implements BlockCodec {
    private static final int SUB = 16;
    private static final int SUBS = 16;
    private static final int CODES = SUBS;
    private static final int D = CODES + 64;
    private static final int M = D + 2;
    private static final int BYTES = M + 2;
    private static final ScaleSearch.Ladder LADDER = new ScaleSearch.Ladder(3, -0.5f, 0.1f, 15);

    @Override
    public void decode(ByteBuffer in, int from, float[] out, int at, int blocks) {
        for (int b = 0; b < blocks; b++, from += BYTES, at += SUB * SUBS) {
            float d = CodecMath.fp16(in, from + D);
            float m = CodecMath.fp16(in, from + M);
            for (int s = 0; s < SUBS; s++) {
                int packed = in.get(from + s);
                float scale = d * (packed & 15);
                float shift = m * (packed >> 4 & 15);
                for (int i = s * SUB; i < (s + 1) * SUB; i++) {
                    out[at + i] = scale * KQuantTwoBits.get(in, from + CODES, i) - shift;
                }
            }
        }
    }

    @Override
    public void encode(float[] in, int at, ByteBuffer out, int to, int blocks) {
        for (int b = 0; b < blocks; b++, to += BYTES, at += SUB * SUBS) {
            encode(in, at, out, to);
        }
    }

    private static void encode(float[] in, int at, ByteBuffer out, int to) {
        ScaleSearch.AffineFit[] fits = new ScaleSearch.AffineFit[SUBS];
        float largestScale = 0;
        float largestShift = 0;
        for (int s = 0; s < SUBS; s++) {
            float[] weights = new float[SUB];
            for (int i = 0; i < SUB; i++) {
                weights[i] = Math.abs(in[at + s * SUB + i]);
            }
            fits[s] = ScaleSearch.affine(in, at + s * SUB, weights, LADDER, true);
            largestScale = Math.max(largestScale, fits[s].scale());
            largestShift = Math.max(largestShift, fits[s].shift());
        }
        CodecMath.putFp16(out, to + D, largestScale / 15);
        CodecMath.putFp16(out, to + M, largestShift / 15);
        float d = CodecMath.fp16(out, to + D);
        float m = CodecMath.fp16(out, to + M);
        float perScale = largestScale > 0 ? 15 / largestScale : 0;
        float perShift = largestShift > 0 ? 15 / largestShift : 0;
        int[] quants = new int[SUB * SUBS];
        for (int s = 0; s < SUBS; s++) {
            int scale = CodecMath.nearest(perScale * fits[s].scale(), 0, 15);
            int offset = CodecMath.nearest(perShift * fits[s].shift(), 0, 15);
            out.put(to + s, (byte) (scale | offset << 4));
            float step = d * scale;
            for (int i = s * SUB; i < (s + 1) * SUB && step != 0; i++) {
                quants[i] = CodecMath.nearest((in[at + i] + m * offset) / step, 0, 3);
            }
        }
        KQuantTwoBits.put(out, to + CODES, quants);
    }
}
