package dev.starforge.tensor;

import java.util.function.LongPredicate;

/**
 * The arithmetic of sampling, defined to the bit, so that the same request has the same text on every device. A token's
 * weight is exp(z), z its distance to the best score over the temperature, as a whole number of 2^-40: sums of whole numbers
 * are exact in any order, so a device may add up as it likes, and needs no doubles. Tokens below 2^-40 of the best one have
 * no weight; a draw has 24 bits, so it makes no difference.
 *
 * <p>Everything else is one IEEE operation in float32 at a time. The temperature divides distances, never scores, and so
 * cannot overflow.
 */
public final class TokenWeights {
    /** The weight of the best token. */
    public static final long ONE = 1L << 40;

    /** More tokens than this could overflow a sum of weights. */
    public static final int MAX_VOCABULARY = 1 << 22;

    private static final int SITE = 0x73616d70;
    private static final int DRAW_BITS = 24;

    private static final float LOWEST = -104; // below: 0
    private static final float LOG2_E = 1.44269504f;
    private static final float LN2_HIGH = 0x1.62e4p-1f; // few enough bits that n * LN2_HIGH is exact
    private static final float LN2_LOW = 0x1.7f7d1cp-20f;
    private static final float ROUND = 0x1.8p23f; // adding it leaves an integer in the low bits of the sum

    private TokenWeights() {}

    /** z, at most 0. */
    public static float distance(float score, float best, float temperature) {
        return (score - best) / temperature;
    }

    public static long weight(float z) {
        return fixed(exp(z));
    }

    /** A part of the best token's weight, as a whole number; exact as a float, too. */
    public static long fixed(float part) {
        return (long) (part * ONE);
    }

    /** exp(x) of x at most 0: x = n ln 2 + r, the Taylor series of e^r, and two multiplications by powers of two. */
    public static float exp(float x) {
        float v = x < LOWEST ? LOWEST : x;
        float shifted = Math.fma(v, LOG2_E, ROUND);
        float whole = shifted - ROUND;
        float r = Math.fma(whole, -LN2_LOW, Math.fma(whole, -LN2_HIGH, v));
        float p = Math.fma(1f / 5040, r, 1f / 720);
        p = Math.fma(p, r, 1f / 120);
        p = Math.fma(p, r, 1f / 24);
        p = Math.fma(p, r, 1f / 6);
        p = Math.fma(p, r, 1f / 2);
        p = Math.fma(p, r, 1);
        p = Math.fma(p, r, 1);
        int exponent = Float.floatToRawIntBits(shifted) - Float.floatToRawIntBits(ROUND);
        int first = exponent >> 1;
        return p * power(first) * power(exponent - first);
    }

    private static float power(int exponent) {
        return Float.intBitsToFloat(exponent + 127 << 23);
    }

    /** Applies the penalties to the logit of a token that is in the prompt (uses 0) or was generated {@code uses} times. */
    public static float penalize(float score, int uses, float repetition, float presence, float frequency) {
        float repeated = score < 0 ? score * repetition : score / repetition;
        return uses > 0 ? repeated - (presence + uses * frequency) : repeated;
    }

    /** The probability of a part; sums are compared as floats, as HF's are, which decides ties. */
    public static float share(long part, long total) {
        return (float) part / (float) total;
    }

    /** The least weight that may be kept when what is left out may have the probability {@code tail}. */
    public static long leaving(float tail, long total) {
        return least(total, kept -> share(total - kept, total) <= tail);
    }

    /** The least weight that has the probability {@code mass}. */
    public static long reaching(float mass, long total) {
        return least(total, kept -> share(kept, total) >= mass);
    }

    /** At least 1, so that a token is kept. */
    private static long least(long total, LongPredicate enough) {
        long low = 1;
        long high = total;
        while (low < high) {
            long middle = low + high >>> 1;
            if (enough.test(middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        return low;
    }

    /** A token's term of the sum whose share is the mean of z. */
    public static long moment(long weight, float z) {
        return weight == 0 ? 0 : (long) (weight * z);
    }

    /**
     * How far a token's surprise is from the entropy. log p is z - log(total) and the entropy log(total) - E[z], so that this
     * is |z - E[z]|.
     */
    public static float surprise(float z, float mean) {
        return Math.abs(z - mean);
    }

    /**
     * The draw for a token of a request: the token it falls on is the first, in the order of ids, whose cumulative weight is
     * above this. It is Philox of (seed, index), a fraction of 24 bits, times the total, rounded down.
     */
    public static long draw(long seed, int index, long total) {
        long u = Philox.words(index, 0, SITE, 1, (int) seed, (int) (seed >>> 32))[0] >>> 32 - DRAW_BITS;
        long low = total & (1L << DRAW_BITS) - 1;
        return (total >>> DRAW_BITS) * u + (low * u >>> DRAW_BITS);
    }
}
