package dev.starforge.tensor.codec;

import java.nio.ByteBuffer;

/**
 * Q4_K and Q5_K: 256 weights in eight sub-blocks of 32, each with a six-bit scale and a six-bit offset that count in
 * units of the block's d and m; a weight is {@code (d * scale) * q - (m * offset)}. A block is d, m, twelve bytes of
 * packed scales and offsets, the 256 fifth bits if there are any (byte i holds bit s for element i of sub-block s), and
 * four runs of 32 bytes: low nibbles are one sub-block, high nibbles the next.
 */
record Q4kQ5kCodec(int bits) implements BlockCodec {
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
        for (int b = 0; b < blocks; b++, to += bytes(), at += SUB * SUBS) {
            encode(in, at, out, to);
        }
    }

    private void encode(float[] in, int at, ByteBuffer out, int to) {
        ScaleSearch.AffineFit[] fits = new ScaleSearch.AffineFit[SUBS];
        float largestScale = 0;
        float largestShift = 0;
        for (int s = 0; s < SUBS; s++) {
            fits[s] = fit(in, at + s * SUB);
            largestScale = Math.max(largestScale, fits[s].scale());
            largestShift = Math.max(largestShift, fits[s].shift());
        }
        for (int i = 0; i < bytes(); i++) {
            out.put(to + i, (byte) 0);
        }
        CodecMath.putFp16(out, to, largestScale / 63);
        CodecMath.putFp16(out, to + 2, largestShift / 63);
        float d = CodecMath.fp16(out, to);
        float m = CodecMath.fp16(out, to + 2);
        float perScale = largestScale > 0 ? 63 / largestScale : 0;
        float perShift = largestShift > 0 ? 63 / largestShift : 0;
        for (int s = 0; s < SUBS; s++) {
            int scale = CodecMath.nearest(perScale * fits[s].scale(), 0, 63);
            int offset = CodecMath.nearest(perShift * fits[s].shift(), 0, 63);
            putScale(out, to + SCALES, s, scale, offset);
            float step = d * scale;
            for (int i = 0; i < SUB && step != 0; i++) {
                int q = CodecMath.nearest((in[at + s * SUB + i] + m * offset) / step, 0, (1 << bits) - 1);
                or(out, nibbles(to, s) + i, (q & 15) << 4 * (s & 1));
                if (bits == 5) {
                    or(out, to + FIFTH + i, q >> 4 << s);
                }
            }
        }
    }

    private ScaleSearch.AffineFit fit(float[] in, int at) {
        float squares = 0;
        for (int i = at; i < at + SUB; i++) {
            squares += in[i] * in[i];
        }
        float typical = (float) Math.sqrt(squares / SUB);
        float[] weights = new float[SUB];
        for (int i = 0; i < SUB; i++) {
            weights[i] = typical + Math.abs(in[at + i]);
        }
        return ScaleSearch.affine(
                in,
                at,
                weights,
                bits == 4 ? new ScaleSearch.Ladder(15, -1, 0.1f, 20) : new ScaleSearch.Ladder(31, -0.5f, 0.1f, 15),
                false);
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
