package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/**
 * Q3_K: 256 weights in sixteen sub-blocks of 16, each with a six-bit scale less 32 in units of the block's d; a weight is
 * {@code (d * scale) * (q - 4)}. A block is 32 bytes of third bits (byte i holds bit r for element i of run r of 32), 64
 * bytes of the lower two ({@link KQuantTwoBits}), twelve bytes of scales and d.
 */
record Q3kCodec() implements WeightedBlockCodec {
    private static final int SUB = 16;
    private static final int SUBS = 16;
    private static final int CODES = 32;
    private static final int SCALES = CODES + 64;
    private static final int D = SCALES + 12;
    private static final int BYTES = D + 2;

    @Override
    public void decode(ByteBuffer in, int from, float[] out, int at, int blocks) {
        for (int b = 0; b < blocks; b++, from += BYTES, at += SUB * SUBS) {
            float d = CodecMath.fp16(in, from + D);
            for (int s = 0; s < SUBS; s++) {
                float scale = d * scale(in, from + SCALES, s);
                for (int i = s * SUB; i < (s + 1) * SUB; i++) {
                    int third = in.get(from + i % 32) >> i / 32 & 1;
                    out[at + i] = scale * (KQuantTwoBits.get(in, from + CODES, i) + 4 * third - 4);
                }
            }
        }
    }

    @Override
    public void encode(float[] in, int at, ByteBuffer out, int to, int blocks) {
        for (int b = 0; b < blocks; b++, to += BYTES, at += SUB * SUBS) {
            float[] scales = new float[SUBS];
            for (int s = 0; s < SUBS; s++) {
                scales[s] = ScaleSearch.descent(in, at + s * SUB, SUB, 4);
            }
            float extreme = CodecMath.extreme(scales, 0, SUBS);
            float perScale = extreme == 0 ? 0 : -32 / extreme;
            int[] units = new int[SUBS];
            for (int s = 0; s < SUBS; s++) {
                units[s] = CodecMath.nearest(perScale * scales[s], -32, 31);
            }
            write(in, at, new ScaleSearch.Fit(CodecMath.inverse(perScale), units), out, to);
        }
    }

    @Override
    public void encode(float[] in, int at, float[] importance, ByteBuffer out, int to) {
        for (int column = 0; column < importance.length; column += SUB * SUBS, to += BYTES) {
            int block = at + column;
            float meanSquare = 2 * CodecMath.meanSquare(in, block, SUB * SUBS);
            float[] scales = new float[SUBS];
            float[] sums = new float[SUBS];
            for (int s = 0; s < SUBS; s++) {
                float[] weights =
                        CodecMath.errorWeights(in, block + s * SUB, SUB, importance, column + s * SUB, meanSquare);
                scales[s] =
                        ScaleSearch.symmetric(in, block + s * SUB, weights, 4).scale();
                sums[s] = CodecMath.sum(weights);
            }
            write(in, block, ScaleSearch.symmetric(scales, 0, sums, 32), out, to);
        }
    }

    private static void write(float[] in, int at, ScaleSearch.Fit scales, ByteBuffer out, int to) {
        CodecMath.putFp16(out, to + D, scales.scale());
        float d = CodecMath.fp16(out, to + D);
        int[] quants = new int[SUB * SUBS];
        int[] packed = new int[12];
        for (int s = 0; s < SUBS; s++) {
            int scale = scales.quants()[s];
            packed[s % 8] |= (scale + 32 & 15) << s / 8 * 4;
            packed[8 + s % 4] |= scale + 32 >> 4 << s / 4 * 2;
            float step = d * scale;
            for (int i = s * SUB; i < (s + 1) * SUB && step != 0; i++) {
                quants[i] = CodecMath.nearest(in[at + i] / step, -4, 3) + 4;
            }
        }
        for (int i = 0; i < packed.length; i++) {
            out.put(to + SCALES + i, (byte) packed[i]);
        }
        KQuantTwoBits.put(out, to + CODES, quants);
        for (int i = 0; i < 32; i++) {
            int thirds = 0;
            for (int run = 0; run < 8; run++) {
                thirds |= quants[run * 32 + i] >> 2 << run;
            }
            out.put(to + i, (byte) thirds);
        }
    }

    /** Four bits in the nibbles of bytes 0 to 7, low ones first, and two in bytes 8 to 11. */
    private static int scale(ByteBuffer in, int scales, int s) {
        int low = in.get(scales + s % 8) >> s / 8 * 4 & 15;
        int high = in.get(scales + 8 + s % 4) >> s / 4 * 2 & 3;
        return (low | high << 4) - 32;
    }
}
