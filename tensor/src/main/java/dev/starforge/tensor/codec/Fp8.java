package dev.starforge.tensor.codec;

/**
 * Eight-bit floats (Micikevicius et al. 2022). E4M3 has no infinities and one NaN for each sign; E5M2 is the upper byte
 * of fp16. Narrowing rounds to nearest even and saturates to the largest finite value, because a clipped weight or key
 * does less harm than an infinite one. Only NaN becomes NaN.
 */
public enum Fp8 {
    E4M3(3, 7, 0x7e),
    E5M2(2, 15, 0x7b);

    private final int mantissaBits;
    private final int bias;
    private final int largest;

    Fp8(int mantissaBits, int bias, int largest) {
        this.mantissaBits = mantissaBits;
        this.bias = bias;
        this.largest = largest;
    }

    /** Decodes an E8M0 exponent byte (a power of two; 255 is NaN). */
    public static float power(byte exponent) {
        return exponent == -1 ? Float.NaN : Math.scalb(1f, Byte.toUnsignedInt(exponent) - 127);
    }

    /** Decodes a value; exact. */
    public float widen(byte code) {
        int magnitude = code & 0x7f;
        int exponent = magnitude >> mantissaBits;
        int mantissa = magnitude & (1 << mantissaBits) - 1;
        float value;
        if (magnitude > largest) {
            value = this == E5M2 && mantissa == 0 ? Float.POSITIVE_INFINITY : Float.NaN;
        } else if (exponent == 0) {
            value = Math.scalb((float) mantissa, 1 - bias - mantissaBits);
        } else {
            value = Math.scalb((float) (1 << mantissaBits | mantissa), exponent - bias - mantissaBits);
        }
        return code < 0 ? -value : value;
    }

    /** Rounds to the nearest value. */
    public byte narrow(float value) {
        float magnitude = Math.abs(value);
        int code;
        if (Float.isNaN(magnitude)) {
            code = 0x7f;
        } else if (magnitude >= widen((byte) largest)) {
            code = largest;
        } else {
            int exponent = Math.max(Math.getExponent(magnitude), 1 - bias);
            int steps = (int) Math.rint(Math.scalb((double) magnitude, mantissaBits - exponent));
            code = (exponent + bias - 1 << mantissaBits) + steps;
        }
        return (byte) (Float.floatToRawIntBits(value) < 0 ? code | 0x80 : code);
    }
}
