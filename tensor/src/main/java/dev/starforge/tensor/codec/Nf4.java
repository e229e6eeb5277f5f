package dev.starforge.tensor.codec;

import java.util.Arrays;

/**
 * 4-bit NormalFloat (Dettmers et al. 2023) in the layout of bitsandbytes: blocks of the flattened tensor, each with its
 * absmax; two values share a byte, the first in the high nibble. With double quantization, the absmax values minus
 * their mean are quantized in blocks of 256 to one byte, with a map that is finer near zero.
 *
 * @param size weights in the tensor
 * @param block weights per absmax value
 * @param quants {@code size / 2} bytes, rounded up
 */
public record Nf4(int size, int block, byte[] quants, Absmax absmax) {
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

    /**
     * Number of cells of the range -1 to 1, narrow enough that a cell contains at most one bound between two values.
     */
    private static final int CELLS = 64;

    /** The bounds between consecutive values. */
    private static final float[] BOUNDS = bounds();

    /** The lowest 4-bit value of each cell. */
    private static final byte[] FIRST = first();

    /** The absmax of each block, as float32 or quantized. */
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
         * Quantized absmax values (double quantization).
         *
         * @param map the 256 values of the code book
         * @param absmax the scale of each block of {@code block} values
         * @param offset added to all values
         */
        record Nested(byte[] quants, float[] map, float[] absmax, int block, float offset) implements Absmax {
            public Nested {
                ColumnGroups.size("Nf4 nested map", 256, map.length);
                CodecMath.require(block > 0, "Nf4", "a nested block above 0, got " + block);
                ColumnGroups.size("Nf4 nested absmax", Math.ceilDiv(quants.length, block), absmax.length);
            }

            @Override
            public int blocks() {
                return quants.length;
            }

            @Override
            public float at(int i) {
                return map[Byte.toUnsignedInt(quants[i])] * absmax[i / block] + offset;
            }
        }
    }

    public Nf4 {
        CodecMath.require(size >= 0 && block > 0, "Nf4", "a size and a block above 0, got " + size + " and " + block);
        ColumnGroups.size("Nf4 quants", Math.ceilDiv(size, 2), quants.length);
        ColumnGroups.size("Nf4 absmax", Math.ceilDiv(size, block), absmax.blocks());
    }

    /** Returns the 16 values. */
    public static float[] quants16() {
        return CODES.clone();
    }

    /**
     * Returns the 256 values of the map for quantized absmax values: signed, with one bit of precision less per decade.
     */
    public static float[] dynamicMap() {
        return DYNAMIC_MAP.clone();
    }

    /** Quantizes with float32 absmax values. */
    public static Nf4 encode(float[] w, int block) {
        CodecMath.require(block > 0, "Nf4", "a block above 0, got " + block);
        CodecMath.requireFinite("Nf4", w, 0, w.length);
        float[] absmax = new float[Math.ceilDiv(w.length, block)];
        byte[] quants = new byte[Math.ceilDiv(w.length, 2)];
        for (int b = 0; b < absmax.length; b++) {
            int from = b * block;
            int end = from + Math.min(block, w.length - from);
            absmax[b] = CodecMath.absmax(w, from, end - from);
            float inverse = CodecMath.inverse(absmax[b]);
            for (int i = from; i < end; i++) {
                quants[i / 2] |= (byte) (code(w[i] * inverse) << ((i & 1) == 0 ? 4 : 0));
            }
        }
        if (w.length % 2 == 1) {
            quants[quants.length - 1] |= (byte) code(0);
        }
        return new Nf4(w.length, block, quants, new Absmax.Plain(absmax));
    }

    /** Quantizes with double quantization: 4.127 bits per weight in blocks of 64. */
    public static Nf4 encodeDouble(float[] w, int block) {
        Nf4 plain = encode(w, block);
        return new Nf4(w.length, block, plain.quants, nest(((Absmax.Plain) plain.absmax).values()));
    }

    /** Writes the absmax of each block of {@link #DEFAULT_BLOCK} of the first {@code count} weights to {@code out}. */
    public static void magnitudes(float[] w, int count, float[] out, int at) {
        CodecMath.requireFinite("Nf4", w, 0, count);
        for (int from = 0; from < count; from += DEFAULT_BLOCK) {
            out[at++] = CodecMath.absmax(w, from, Math.min(DEFAULT_BLOCK, count - from));
        }
    }

    /** Returns the absmax values of a tensor after double quantization and dequantization. */
    public static float[] doubled(float[] magnitudes) {
        Absmax.Nested nested = nest(magnitudes);
        float[] decoded = new float[magnitudes.length];
        for (int i = 0; i < decoded.length; i++) {
            decoded[i] = nested.at(i);
        }
        return decoded;
    }

    /** Quantizes the absmax values of a tensor. */
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
        byte[] quants = new byte[values.length];
        float[] absmax = new float[Math.ceilDiv(values.length, NESTED_BLOCK)];
        for (int b = 0; b < absmax.length; b++) {
            int from = b * NESTED_BLOCK;
            int end = Math.min(values.length, from + NESTED_BLOCK);
            absmax[b] = CodecMath.absmax(centred, from, end - from);
            float inverse = CodecMath.inverse(absmax[b]);
            for (int i = from; i < end; i++) {
                quants[i] = (byte) nearest(DYNAMIC_MAP, centred[i] * inverse);
            }
        }
        return new Absmax.Nested(quants, dynamicMap(), absmax, NESTED_BLOCK, offset);
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
            int code = quants[i / 2] >> ((i & 1) == 0 ? 4 : 0) & 15;
            out[at + i - first] = CODES[code] * absmax.at(i / block);
        }
    }

    /** Returns the float of a 4-bit value. */
    static float value(int code) {
        return CODES[code];
    }

    /** Rounds a number from -1 to 1 to the nearest 4-bit value, ties to the lower; branch-free. */
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

    /**
     * Computes the first value of each cell. Cells are slightly enlarged because the cell index is computed with
     * rounding.
     */
    private static byte[] first() {
        byte[] first = new byte[CELLS + 1];
        for (int cell = 0; cell <= CELLS; cell++) {
            while (BOUNDS[first[cell]] < cell / (CELLS / 2.0) - 1 - 1e-6) {
                first[cell]++;
            }
        }
        return first;
    }

    /** Returns the index of the nearest of ascending values, ties to the lower. */
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
     * Seven decades; decade i has 2^i equal steps from 0.1 to 1, each represented by its middle, in both signs; and 0
     * and 1. The steps are computed from both ends to the middle in float32 with fused multiply-adds, as torch.linspace
     * does.
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
