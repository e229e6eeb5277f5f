package dev.starforge.tensor.codec;

import java.util.Arrays;

/**
 * The 256 numbers of dynamic quantization (Dettmers 2015), as bitsandbytes lays them out: seven decades with ever finer
 * fractions towards 1, zero and one. The signed map serves first moments, the unsigned one second moments. A quantized
 * value is an index into the ascending numbers; a float is rounded to the nearest one, ties to the lower.
 */
public final class DynamicMap {
    public static final DynamicMap SIGNED = new DynamicMap(true);
    public static final DynamicMap UNSIGNED = new DynamicMap(false);

    private static final int SIZE = 256;
    private static final int DECADES = 7;

    private final float[] values = new float[SIZE];
    private final float[] middles = new float[SIZE - 1];
    private final byte[] starts = new byte[1 << 16];

    private DynamicMap(boolean signed) {
        int at = 0;
        for (int i = 0; i < DECADES; i++) {
            int fractions = signed ? 1 << i : 2 << i;
            float power = (float) Math.pow(10, i - DECADES + 1);
            for (int k = 0; k < fractions; k++) {
                float low = 0.1f + 0.9f * k / fractions;
                float high = 0.1f + 0.9f * (k + 1) / fractions;
                float value = power * ((low + high) / 2);
                values[at++] = value;
                if (signed) {
                    values[at++] = -value;
                }
            }
        }
        values[at++] = 0;
        values[at] = 1;
        Arrays.sort(values);
        for (int i = 0; i < middles.length; i++) {
            middles[i] = (values[i] + values[i + 1]) / 2;
        }
        for (int top = 0; top < starts.length; top++) {
            // the smallest number with these upper bits: the one nearest to minus infinity
            float least = Float.intBitsToFloat(top << 16 | (top >= 1 << 15 ? 0xffff : 0));
            starts[top] = (byte) (Float.isNaN(least) ? 0 : search(least));
        }
    }

    private int search(float x) {
        int code = 0;
        while (code < middles.length && x > middles[code]) {
            code++;
        }
        return code;
    }

    public float value(int code) {
        return values[code];
    }

    /** Returns the index of the number nearest to x, ties to the lower; 0 for NaN. */
    public int nearest(float x) {
        int code = starts[Float.floatToRawIntBits(x) >>> 16] & 0xff;
        while (code < middles.length && x > middles[code]) {
            code++;
        }
        return code;
    }

    /** Returns a copy of the ascending numbers. */
    public float[] values() {
        return values.clone();
    }
}
