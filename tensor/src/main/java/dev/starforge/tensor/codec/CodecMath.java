package dev.starforge.tensor.codec;

import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;

/** Arithmetic that codecs share: fp16, unsigned bytes, rounding, and absmax. */
final class CodecMath {
    private CodecMath() {}

    static float fp16(ByteBuffer in, int at) {
        return Float.float16ToFloat(in.getShort(at));
    }

    static void putFp16(ByteBuffer out, int at, float value) {
        out.putShort(at, Float.floatToFloat16(value));
    }

    /** Rounds a float to fp16 and back. */
    static float roundToFp16(float value) {
        return Float.float16ToFloat(Float.floatToFloat16(value));
    }

    static int unsigned(ByteBuffer in, int at) {
        return Byte.toUnsignedInt(in.get(at));
    }

    /** Rounded to nearest, ties to even, and limited to a range. */
    static int nearest(float value, int low, int high) {
        return (int) Math.clamp(Math.rint(value), low, high);
    }

    static float absmax(float[] x, int at, int count) {
        float largest = 0;
        for (int i = at; i < at + count; i++) {
            largest = Math.max(largest, Math.abs(x[i]));
        }
        return largest;
    }

    /** The element of largest magnitude, with its sign; the first of equals. */
    static float extreme(float[] x, int at, int count) {
        float extreme = 0;
        for (int i = at; i < at + count; i++) {
            if (Math.abs(x[i]) > Math.abs(extreme)) {
                extreme = x[i];
            }
        }
        return extreme;
    }

    /** Returns 1 / scale, or 0 if the scale is 0. */
    static float inverse(float scale) {
        return scale == 0 ? 0 : 1 / scale;
    }

    /** Returns the mean of the squares. */
    static float meanSquare(float[] x, int at, int count) {
        float squares = 0;
        for (int i = at; i < at + count; i++) {
            squares += x[i] * x[i];
        }
        return squares / count;
    }

    /** Returns the weights of the errors of some elements: their importance times a magnitude that is never zero. */
    static float[] errorWeights(float[] x, int at, int count, float[] importance, int column, float meanSquare) {
        float[] weights = new float[count];
        for (int i = 0; i < count; i++) {
            weights[i] = importance[column + i] * (float) Math.sqrt(meanSquare + x[at + i] * x[at + i]);
        }
        return weights;
    }

    static float sum(float[] values) {
        float sum = 0;
        for (float value : values) {
            sum += value;
        }
        return sum;
    }

    static void requireFinite(Object format, float[] x, int at, int count) {
        for (int i = at; i < at + count; i++) {
            if (!Float.isFinite(x[i])) {
                throw new TensorException(
                        "encode " + format + ": element " + i + " is " + x[i] + ", expected a number");
            }
        }
    }

    /** Checks a parameter. */
    static void require(boolean holds, Object format, String expectation) {
        if (!holds) {
            throw new TensorException(format + ": expected " + expectation);
        }
    }
}
