package dev.starforge.tensor;

/**
 * Philox4x32-10 (Salmon et al. 2011): random numbers as a pure function of key and counter, so that a value depends on
 * what it is for and never on who asked first. Same numbers on every device.
 */
public final class Philox {
    private static final int ROUNDS = 10;
    private static final int M0 = 0xD2511F53;
    private static final int M1 = 0xCD9E8D57;
    private static final int W0 = 0x9E3779B9;
    private static final int W1 = 0xBB67AE85;

    private Philox() {}

    /** Four random words for a counter of 128 bits and a key of 64. */
    public static int[] words(int c0, int c1, int c2, int c3, int k0, int k1) {
        for (int round = 0; round < ROUNDS; round++) {
            long p0 = (M0 & 0xffffffffL) * (c0 & 0xffffffffL);
            long p1 = (M1 & 0xffffffffL) * (c2 & 0xffffffffL);
            int n0 = (int) (p1 >>> 32) ^ c1 ^ k0;
            int n2 = (int) (p0 >>> 32) ^ c3 ^ k1;
            c0 = n0;
            c1 = (int) p1;
            c2 = n2;
            c3 = (int) p0;
            k0 += W0;
            k1 += W1;
        }
        return new int[] {c0, c1, c2, c3};
    }

    /** A standard normal for element {@code i} of stream {@code site} (Box and Muller 1958). */
    public static float normal(long seed, int site, long i) {
        int[] words = words((int) i, (int) (i >>> 32), site, 0, (int) seed, (int) (seed >>> 32));
        double u = ((words[0] >>> 8) + 0.5) * 0x1p-24;
        double v = (words[1] >>> 8) * 0x1p-24;
        return (float) (StrictMath.sqrt(-2 * StrictMath.log(u)) * StrictMath.cos(2 * Math.PI * v));
    }

    /** A uniform value in [0, 1) for element {@code i} of stream {@code site}. */
    public static float uniform(long seed, int site, long i) {
        return (words((int) i, (int) (i >>> 32), site, 1, (int) seed, (int) (seed >>> 32))[0] >>> 8) * 0x1p-24f;
    }
}
