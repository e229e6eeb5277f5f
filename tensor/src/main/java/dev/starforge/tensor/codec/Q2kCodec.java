package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/**
 * Q2_K: 256 weights in sixteen sub-blocks of 16, each with a four-bit scale (low nibble) and offset (high nibble) in
 * units of the block's d and m; a weight is {@code (d * scale) * q - (m * offset)}. A block is sixteen bytes of scales,
 * 64 bytes of quantized values ({@link KQuantTwoBits}), d and m.
 */
record Q2kCodec() implements WeightedBlockCodec {
    private static final int SUB = 16;
    private static final int SUBS = 16;
    private static final int CODES = SUBS;
    private static final int D = CODES + 64;
    private static final int M = D + 2;
    private static final int BYTES = M + 2;
    private static final ScaleSearch.Ladder LADDER = new ScaleSearch.Ladder(3, -0.5f, 0.1f, 15);
    private static final ScaleSearch.Ladder FINE_LADDER = new ScaleSearch.Ladder(3, -0.9f, 0.05f, 36);

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
            ScaleSearch.AffineFit[] fits = new ScaleSearch.AffineFit[SUBS];
            for (int s = 0; s < SUBS; s++) {
                float[] weights = new float[SUB];
                for (int i = 0; i < SUB; i++) {
                    weights[i] = Math.abs(in[at + s * SUB + i]);
                }
                fits[s] = ScaleSearch.affine(in, at + s * SUB, weights, LADDER, true);
            }
            write(in, at, AffineScales.largest(fits, 15), out, to);
        }
    }

    @Override
    public void encode(float[] in, int at, float[] importance, ByteBuffer out, int to) {
        for (int column = 0; column < importance.length; column += SUB * SUBS, to += BYTES) {
            int block = at + column;
            float meanSquare = CodecMath.meanSquare(in, block, SUB * SUBS);
            ScaleSearch.AffineFit[] fits = new ScaleSearch.AffineFit[SUBS];
            float[] sums = new float[SUBS];
            for (int s = 0; s < SUBS; s++) {
                float[] weights =
                        CodecMath.errorWeights(in, block + s * SUB, SUB, importance, column + s * SUB, meanSquare);
                fits[s] = ScaleSearch.affine(in, block + s * SUB, weights, FINE_LADDER, false);
                sums[s] = CodecMath.sum(weights);
            }
            write(in, block, AffineScales.weighted(fits, sums, 15), out, to);
        }
    }

    private static void write(float[] in, int at, AffineScales scales, ByteBuffer out, int to) {
        CodecMath.putFp16(out, to + D, scales.d());
        CodecMath.putFp16(out, to + M, scales.m());
        float d = CodecMath.fp16(out, to + D);
        float m = CodecMath.fp16(out, to + M);
        int[] quants = new int[SUB * SUBS];
        for (int s = 0; s < SUBS; s++) {
            int offset = scales.offsets()[s];
            out.put(to + s, (byte) (scales.scales()[s] | offset << 4));
            float step = d * scales.scales()[s];
            for (int i = s * SUB; i < (s + 1) * SUB && step != 0; i++) {
                quants[i] = CodecMath.nearest((in[at + i] + m * offset) / step, 0, 3);
            }
        }
        KQuantTwoBits.put(out, to + CODES, quants);
    }
}
