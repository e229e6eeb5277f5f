package dev.starforge.tensor.codec;

/** The four-bit float of the OCP Microscaling specification: a sign, two bits of exponent, one of mantissa. */
final class E2m1 {
    static final float LARGEST = 6;

    private static final float[] MAGNITUDES = {0, 0.5f, 1, 1.5f, 2, 3, 4, LARGEST};

    private E2m1() {}

    static float value(int code) {
        float magnitude = MAGNITUDES[code & 7];
        return (code & 8) == 0 ? magnitude : -magnitude;
    }

    /** Rounds to the nearest E2M1 value, ties to even; larger magnitudes saturate; zero has no sign. */
    static int nearest(float x) {
        float magnitude = Math.abs(x);
        int code = 0;
        while (code < 7 && isPastMiddle(magnitude, code)) {
            code++;
        }
        return x < 0 && code > 0 ? code | 8 : code;
    }

    private static boolean isPastMiddle(float magnitude, int code) {
        float middle = (MAGNITUDES[code] + MAGNITUDES[code + 1]) / 2;
        return magnitude > middle || magnitude == middle && (code & 1) == 1;
    }

    /** The exponent byte of the power of two that brings a group's largest magnitude to E2M1's largest binade. */
    static int exponent(float absmax) {
        return absmax == 0 ? 0 : Math.clamp(Math.getExponent(absmax) - 2 + 127, 0, 254);
    }
}
