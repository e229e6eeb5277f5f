package dev.starforge.tensor.codec;

import java.util.Arrays;

/**
 * Four-bit quantiles of the normal distribution (Dettmers et al. 2023), as bitsandbytes lays them out: blocks run over
 * the flattened tensor, each with its largest magnitude; two codes share a byte, the first in the high nibble. With
 * double quantization the magnitudes are themselves coded: less their mean, in blocks of 256, to one byte of a map that is
 * finer near zero.
 *
 * @param size weights in the tensor
 * @param block weights that share a magnitude
 * @param codes {@code size / 2} bytes, rounded up
 */
public record Nf4(int size, int block, byte[] codes, Absmax absmax) {
    public static final int DEFAULT_BLOCK = 64;
    public static final int NESTED_BLOCK = 256;

    private static final float[] CODES = {
        -1.0f,
        -0.6961928009986877f,
        -0.5250730514526367f,
        -0.39491748809814453f,
        -0.28444138169288635f,
        -0.18477343022823334f,
        -0.09105003625154495f,
        0.0f,
        0.07958029955625534f,
        0.16093020141124725f,
        0.24611230194568634f,
        0.33791524171829224f,
        0.44070982933044434f,
        0.5626170039176941f,
        0.7229568362236023f,
        1.0f
    };
    private static final float[] DYNAMIC_MAP = dynamicMapOf();

    /** Cells of the range from -1 to 1: so narrow that none has two of the bounds between codes. */
    private static final int CELLS = 64;

    /** Where one code ends and the next begins; and the first code that a cell may have. */
    private static final float[] BOUNDS = bounds();

    private static final byte[] FIRST = first();

    /** The largest magnitude of each block, plain or coded. */
    public sealed interface Absmax {
        int blocks();

        float at(int block);

        record Plain(float[] values) implements Absmax {
            @Override
            public int blocks() {
                return values.length;
            }

            @Override
            public float at(int block) {
                return values[block];
            }
        }

        /**
         * Coded magnitudes.
         *
         * @param map the 256 values of the code book
         * @param absmax the scale of each block of {@code block} values
         * @param offset what is added to all
         */
        record Nested(byte[] codes, float[] map, float[] absmax, int block, float offset) implements Absmax {
            public Nested {
                ColumnGroups.size("Nf4 nested map", 256, map.length);
                CodecMath.require(block > 0, "Nf4", "a nested block above 0, got " + block);
                ColumnGroups.size("Nf4 nested absmax", Math.ceilDiv(codes.length, block), absmax.length);
            }

            @Override
            public int blocks() {
                return codes.length;
            }

            @Override
            public float at(int i) {
                return map[Byte.toUnsignedInt(codes[i])] * absmax[i / block] + offset;
            }
        }
    }

    public Nf4 {
        CodecMath.require(size >= 0 && block > 0, "Nf4", "a size and a block above 0, got " + size + " and " + block);
        ColumnGroups.size("Nf4 codes", Math.ceilDiv(size, 2), codes.length);
        ColumnGroups.size("Nf4 absmax", Math.ceilDiv(size, block), absmax.blocks());
    }

    /** The sixteen values. */
    public static float[] codes16() {
        return CODES.clone();
    }

    /** The 256 values that coded magnitudes take: signed, with a fraction that loses a bit for each decade down. */
    public static float[] dynamicMap() {
        return DYNAMIC_MAP.clone();
    }

    /** With float32 magnitudes. */
    public static Nf4 encode(float[] w, int block) {
        CodecMath.require(block > 0, "Nf4", "a block above 0, got " + block);
        CodecMath.requireFinite("Nf4", w, 0, w.length);
        float[] absmax = new float[Math.ceilDiv(w.length, block)];
        byte[] codes = new byte[Math.ceilDiv(w.length, 2)];
        for (int b = 0; b < absmax.length; b++) {
            int from = b * block;
            int end = from + Math.min(block, w.length - from);
            absmax[b] = CodecMath.absmax(w, from, end - from);
            float inverse = CodecMath.inverse(absmax[b]);
            for (int i = from; i < end; i++) {
                codes[i / 2] |= (byte) (code(w[i] * inverse) << ((i & 1) == 0 ? 4 : 0));
            }
        }
        if (w.length % 2 == 1) {
            codes[codes.length - 1] |= (byte) code(0);
        }
        return new Nf4(w.length, block, codes, new Absmax.Plain(absmax));
    }

    /** With coded magnitudes: 4.127 bits a weight in blocks of 64. */
    public static Nf4 encodeDouble(float[] w, int block) {
        Nf4 plain = encode(w, block);
        return new Nf4(w.length, block, plain.codes, nest(((Absmax.Plain) plain.absmax).values()));
    }

    /** The largest magnitude of each block of {@link #DEFAULT_BLOCK} of the first {@code count} weights, to {@code out}. */
    public static void magnitudes(float[] w, int count, float[] out, int at) {
        CodecMath.requireFinite("Nf4", w, 0, count);
        for (int from = 0; from < count; from += DEFAULT_BLOCK) {
            out[at++] = CodecMath.absmax(w, from, Math.min(DEFAULT_BLOCK, count - from));
        }
    }

    /** What all magnitudes of one tensor become when they are themselves coded. */
    public static float[] doubled(float[] magnitudes) {
        Absmax.Nested nested = nest(magnitudes);
        float[] decoded = new float[magnitudes.length];
        for (int i = 0; i < decoded.length; i++) {
            decoded[i] = nested.at(i);
        }
        return decoded;
    }

    /** The magnitudes of one tensor, coded. */
    public static Absmax.Nested nest(float[] values) {
        double sum = 0;
        for (float value : values) {
            sum += value;
        }
        float offset = values.length == 0 ? 0 : (float) (sum / values.length);
        float[] centred = new float[values.length];
        for (int i = 0; i < values.length; i++) {
            centred[i] = values[i] - offset;
        }
        byte[] codes = new byte[values.length];
        float[] absmax = new float[Math.ceilDiv(values.length, NESTED_BLOCK)];
        for (int b = 0; b < absmax.length; b++) {
            int from = b * NESTED_BLOCK;
            int end = Math.min(values.length, from + NESTED_BLOCK);
            absmax[b] = CodecMath.absmax(centred, from, end - from);
            float inverse = CodecMath.inverse(absmax[b]);
            for (int i = from; i < end; i++) {
                codes[i] = (byte) nearest(DYNAMIC_MAP, centred[i] * inverse);
            }
        }
        return new Absmax.Nested(codes, dynamicMap(), absmax, NESTED_BLOCK, offset);
    }

    /** The weights, flattened. */
    public float[] decode() {
        float[] w = new float[size];
        decode(0, size, w, 0);
        return w;
    }

    /** Weights {@code first} to {@code first + count - 1} of the flattened tensor. */
    public void decode(int first, int count, float[] out, int at) {
        for (int i = first; i < first + count; i++) {
            int code = codes[i / 2] >> ((i & 1) == 0 ? 4 : 0) & 15;
            out[at + i - first] = CODES[code] * absmax.at(i / block);
        }
    }

    /** The value of one of the sixteen codes. */
    static float value(int code) {
        return CODES[code];
    }

    /** The code nearest to a number from -1 to 1, ties to the lower; without a branch to guess wrong. */
    static int code(float x) {
        int first = FIRST[Math.clamp((int) ((x + 1) * (CELLS / 2)), 0, CELLS)];
        return first + (x > BOUNDS[first] ? 1 : 0);
    }

    private static float[] bounds() {
        float[] bounds = new float[CODES.length];
        for (int i = 0; i + 1 < bounds.length; i++) {
            bounds[i] = (CODES[i] + CODES[i + 1]) / 2;
        }
        bounds[bounds.length - 1] = Float.POSITIVE_INFINITY;
        return bounds;
    }

    /** Cells are taken a little wider, for the sum that finds one is rounded. */
    private static byte[] first() {
        byte[] first = new byte[CELLS + 1];
        for (int cell = 0; cell <= CELLS; cell++) {
            while (BOUNDS[first[cell]] < cell / (CELLS / 2.0) - 1 - 1e-6) {
                first[cell]++;
            }
        }
        return first;
    }

    /** The nearest of ascending values, ties to the lower. */
    private static int nearest(float[] values, float x) {
        int low = 0;
        int high = values.length - 1;
        while (low < high) {
            int middle = (low + high) / 2;
            if (x > (values[middle] + values[middle + 1]) / 2) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    /**
     * Seven decades; decade i has 2^i equal steps from 0.1 to 1, each stood for by its middle, in both signs; and 0 and 1.
     * The steps are laid out from both ends to the middle in float32 with fused multiply-adds, as
     * torch.linspace does on any CPU that has them.
     */
    private static float[] dynamicMapOf() {
        float[] map = new float[256];
        int filled = 0;
        for (int decade = 0; decade < 7; decade++) {
            int steps = 1 << decade;
            float width = (1 - 0.1f) / steps;
            float unit = (float) Math.pow(10, decade - 6);
            for (int i = 0; i < steps; i++) {
                float middle = (edge(i, steps, width) + edge(i + 1, steps, width)) / 2;
                map[filled++] = unit * middle;
                map[filled++] = -unit * middle;
            }
        }
        map[filled++] = 0;
        map[filled] = 1;
        Arrays.sort(map);
        return map;
    }

    private static float edge(int i, int steps, float width) {
        return i < (steps + 1) / 2 ? Math.fma(width, i, 0.1f) : Math.fma(-width, steps - i, 1);
    }
}
