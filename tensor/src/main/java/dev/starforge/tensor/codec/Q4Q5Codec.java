package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Q4_0, Q4_1, Q5_0 and Q5_1: 32 quantized values of four or five bits. A block is the scale d, the offset m if it has one, the 32
 * fifth bits if it has them, and 16 bytes whose low nibbles are the first half of the block and high nibbles the second.
 * With an offset a weight is {@code q * d + m}; without, values are centred and it is {@code (q - half) * d}, where d
 * carries the sign that maps the extreme weight to the larger side of the range.
 */
record Q4Q5Codec(int bits, boolean offset) implements WeightedBlockCodec {
    private static final int HALF = 16;

    @Override
    public void decode(ByteBuffer in, int from, float[] out, int at, int blocks) {
        int centre = offset ? 0 : 1 << bits - 1;
        for (int b = 0; b < blocks; b++, from += bytes(), at += 2 * HALF) {
            float d = CodecMath.fp16(in, from);
            float m = offset ? CodecMath.fp16(in, from + 2) : 0;
            int fifth = bits == 5 ? in.getInt(from + scaleBytes()) : 0;
            int nibbles = from + bytes() - HALF;
            for (int i = 0; i < HALF; i++) {
                int pair = in.get(nibbles + i);
                float low = (pair & 15 | (fifth >>> i & 1) << 4) - centre;
                float high = (pair >> 4 & 15 | (fifth >>> i + HALF & 1) << 4) - centre;
                out[at + i] = offset ? low * d + m : low * d;
                out[at + i + HALF] = offset ? high * d + m : high * d;
            }
        }
    }

    @Override
    public void encode(float[] in, int at, ByteBuffer out, int to, int blocks) {
        for (int b = 0; b < blocks; b++, to += bytes(), at += 2 * HALF) {
            float shift = offset ? min(in, at) : 0;
            float d = offset
                    ? (max(in, at) - shift) / ((1 << bits) - 1)
                    : CodecMath.extreme(in, at, 2 * HALF) / -(1 << bits - 1);
            float rounding = offset ? 0.5f : (1 << bits - 1) + 0.5f;
            float inverse = CodecMath.inverse(d);
            int[] quants = new int[2 * HALF];
            for (int i = 0; i < quants.length; i++) {
                quants[i] = code(in[at + i] - shift, inverse, rounding);
            }
            write(d, shift, quants, out, to);
        }
    }

    @Override
    public void encode(float[] in, int at, float[] importance, ByteBuffer out, int to) {
        int centre = 1 << bits - 1;
        ScaleSearch.Ladder ladder = new ScaleSearch.Ladder(2 * centre - 1, -0.9f, 0.05f, 36);
        float meanSquare = CodecMath.meanSquare(in, at, importance.length);
        for (int column = 0; column < importance.length; column += 2 * HALF, to += bytes()) {
            float[] weights = CodecMath.errorWeights(in, at + column, 2 * HALF, importance, column, meanSquare);
            if (offset) {
                ScaleSearch.AffineFit fit = ScaleSearch.affine(in, at + column, weights, ladder, false);
                write(fit.scale(), -fit.shift(), fit.quants(), out, to);
            } else {
                ScaleSearch.Fit fit = ScaleSearch.symmetric(in, at + column, weights, centre);
                write(
                        fit.scale(),
                        0,
                        Arrays.stream(fit.quants()).map(q -> q + centre).toArray(),
                        out,
                        to);
            }
        }
    }

    private void write(float d, float shift, int[] quants, ByteBuffer out, int to) {
        CodecMath.putFp16(out, to, d);
        if (offset) {
            CodecMath.putFp16(out, to + 2, shift);
        }
        int fifth = 0;
        int nibbles = to + bytes() - HALF;
        for (int i = 0; i < HALF; i++) {
            int low = quants[i];
            int high = quants[i + HALF];
            out.put(nibbles + i, (byte) (low & 15 | high << 4));
            fifth |= low >> 4 << i | high >> 4 << i + HALF;
        }
        if (bits == 5) {
            out.putInt(to + scaleBytes(), fifth);
        }
    }

    private int code(float x, float inverse, float rounding) {
        return Math.min((1 << bits) - 1, (int) (x * inverse + rounding));
    }

    private int scaleBytes() {
        return offset ? 4 : 2;
    }

    private int bytes() {
        return scaleBytes() + (bits == 5 ? 4 : 0) + HALF;
    }

    private static float min(float[] x, int at) {
        float min = x[at];
        for (int i = 1; i < 2 * HALF; i++) {
            min = Math.min(min, x[at + i]);
        }
        return min;
    }

    private static float max(float[] x, int at) {
        float max = x[at];
        for (int i = 1; i < 2 * HALF; i++) {
            max = Math.max(max, x[at + i]);
        }
        return max;
    }
}
