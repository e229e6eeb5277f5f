package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/**
 * Q4_K and Q5_K: 256 weights in eight sub-blocks of 32, each with a six-bit scale and a six-bit offset that count in
 * units of the block's d and m; a weight is {@code (d * scale) * q - (m * offset)}. A block is d, m, twelve bytes of
 * packed scales and offsets, the 256 fifth bits if there are any (byte i holds bit s for element i of sub-block s), and
 * four runs of 32 bytes: low nibbles are one sub-block, high nibbles the next.
 */
record Q4kQ5kCodec(int bits) implements WeightedBlockCodec {
    private static final int SUB = 32;
    private static final int SUBS = 8;
    private static final int SCALES = 4;
    private static final int FIFTH = 16;

    @Override
    public void decode(ByteBuffer in, int from, float[] out, int at, int blocks) {
        for (int b = 0; b < blocks; b++, from += bytes(), at += SUB * SUBS) {
            float d = CodecMath.fp16(in, from);
            float m = CodecMath.fp16(in, from + 2);
            for (int s = 0; s < SUBS; s++) {
                float scale = d * scale(in, from + SCALES, s);
                float shift = m * offset(in, from + SCALES, s);
                for (int i = 0; i < SUB; i++) {
                    int q = in.get(nibbles(from, s) + i) >> 4 * (s & 1) & 15;
                    if (bits == 5) {
                        q |= (in.get(from + FIFTH + i) >> s & 1) << 4;
                    }
                    out[at + s * SUB + i] = scale * q - shift;
                }
            }
        }
    }

    @Override
    public void encode(float[] in, int at, ByteBuffer out, int to, int blocks) {
        ScaleSearch.Ladder ladder =
                bits == 4 ? new ScaleSearch.Ladder(15, -1, 0.1f, 20) : new ScaleSearch.Ladder(31, -0.5f, 0.1f, 15);
        for (int b = 0; b < blocks; b++, to += bytes(), at += SUB * SUBS) {
            ScaleSearch.AffineFit[] fits = new ScaleSearch.AffineFit[SUBS];
            for (int s = 0; s < SUBS; s++) {
                fits[s] = ScaleSearch.affine(in, at + s * SUB, magnitudes(in, at + s * SUB), ladder, false);
            }
            write(in, at, AffineScales.largest(fits, 63), out, to);
        }
    }

    @Override
    public void encode(float[] in, int at, float[] importance, ByteBuffer out, int to) {
        ScaleSearch.Ladder ladder = new ScaleSearch.Ladder((1 << bits) - 1, -0.9f, 0.05f, 36);
        for (int column = 0; column < importance.length; column += SUB * SUBS, to += bytes()) {
            int block = at + column;
            float meanSquare = 2 * CodecMath.meanSquare(in, block, SUB * SUBS);
            ScaleSearch.AffineFit[] fits = new ScaleSearch.AffineFit[SUBS];
            float[] sums = new float[SUBS];
            for (int s = 0; s < SUBS; s++) {
                float[] weights =
                        CodecMath.errorWeights(in, block + s * SUB, SUB, importance, column + s * SUB, meanSquare);
                fits[s] = ScaleSearch.affine(in, block + s * SUB, weights, ladder, false);
                sums[s] = CodecMath.sum(weights);
            }
            write(in, block, AffineScales.weighted(fits, sums, 63), out, to);
        }
    }

    private void write(float[] in, int at, AffineScales scales, ByteBuffer out, int to) {
        for (int i = 0; i < bytes(); i++) {
            out.put(to + i, (byte) 0);
        }
        CodecMath.putFp16(out, to, scales.d());
        CodecMath.putFp16(out, to + 2, scales.m());
        float d = CodecMath.fp16(out, to);
        float m = CodecMath.fp16(out, to + 2);
        for (int s = 0; s < SUBS; s++) {
            int offset = scales.offsets()[s];
            putScale(out, to + SCALES, s, scales.scales()[s], offset);
            float step = d * scales.scales()[s];
            for (int i = 0; i < SUB && step != 0; i++) {
                int q = CodecMath.nearest((in[at + s * SUB + i] + m * offset) / step, 0, (1 << bits) - 1);
                or(out, nibbles(to, s) + i, (q & 15) << 4 * (s & 1));
                if (bits == 5) {
                    or(out, to + FIFTH + i, q >> 4 << s);
                }
            }
        }
    }

    private static float[] magnitudes(float[] in, int at) {
        float typical = (float) Math.sqrt(CodecMath.meanSquare(in, at, SUB));
        float[] weights = new float[SUB];
        for (int i = 0; i < SUB; i++) {
            weights[i] = typical + Math.abs(in[at + i]);
        }
        return weights;
    }

    /** Sub-blocks 0 to 3 have their scales in bytes 0 to 3; the others four bits in bytes 8 to 11, two above the former. */
    private static int scale(ByteBuffer in, int scales, int s) {
        return s < 4 ? in.get(scales + s) & 63 : in.get(scales + s + 4) & 15 | (in.get(scales + s - 4) >> 6 & 3) << 4;
    }

    /** As the scales, from byte 4 on, and the high four bits of bytes 8 to 11. */
    private static int offset(ByteBuffer in, int scales, int s) {
        return s < 4
                ? in.get(scales + s + 4) & 63
                : in.get(scales + s + 4) >> 4 & 15 | (in.get(scales + s) >> 6 & 3) << 4;
    }

    private static void putScale(ByteBuffer out, int scales, int s, int scale, int offset) {
        if (s < 4) {
            or(out, scales + s, scale);
            or(out, scales + s + 4, offset);
        } else {
            or(out, scales + s + 4, scale & 15 | (offset & 15) << 4);
            or(out, scales + s - 4, scale >> 4 << 6);
            or(out, scales + s, offset >> 4 << 6);
        }
    }

    private static void or(ByteBuffer out, int at, int bits) {
        out.put(at, (byte) (out.get(at) | bits));
    }

    private int nibbles(int block, int s) {
        return block + (bits == 5 ? FIFTH + SUB : FIFTH) + s / 2 * SUB;
    }

    private int bytes() {
        return bits == 5 ? 176 : 144;
    }
}
