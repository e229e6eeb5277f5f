package dev.starforge.cpu.core;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Sums over an array in an order that is the same on every machine: element i goes to chain i mod 64, and the chains meet
 * in a binary tree. Narrow vectors take the 64 chains in several passes, wide ones in one; the bits do not tell which.
 */
public final class Sums {
    /** Number of chains; callers give this much scratch. */
    public static final int LANES = 64;

    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;

    private Sums() {}

    /** The sum of s[x..x+n-1]. */
    public static float sum(float[] s, int x, int n, int lanes) {
        int whole = n & -LANES;
        for (int part = 0; part < LANES; part += 4 * W) {
            FloatVector c0 = FloatVector.zero(SPECIES);
            FloatVector c1 = c0;
            FloatVector c2 = c0;
            FloatVector c3 = c0;
            for (int i = part; i < whole; i += LANES) {
                c0 = c0.add(FloatVector.fromArray(SPECIES, s, x + i));
                c1 = c1.add(FloatVector.fromArray(SPECIES, s, x + i + W));
                c2 = c2.add(FloatVector.fromArray(SPECIES, s, x + i + 2 * W));
                c3 = c3.add(FloatVector.fromArray(SPECIES, s, x + i + 3 * W));
            }
            c0.intoArray(s, lanes + part);
            c1.intoArray(s, lanes + part + W);
            c2.intoArray(s, lanes + part + 2 * W);
            c3.intoArray(s, lanes + part + 3 * W);
        }
        for (int i = whole; i < n; i++) {
            s[lanes + i - whole] += s[x + i];
        }
        return tree(s, lanes);
    }

    /** The sum of s[x + i] * s[y + i] for i in 0..n-1. */
    public static float dot(float[] s, int x, int y, int n, int lanes) {
        int whole = n & -LANES;
        for (int part = 0; part < LANES; part += 4 * W) {
            FloatVector c0 = FloatVector.zero(SPECIES);
            FloatVector c1 = c0;
            FloatVector c2 = c0;
            FloatVector c3 = c0;
            for (int i = part; i < whole; i += LANES) {
                int p = x + i;
                int q = y + i;
                c0 = FloatVector.fromArray(SPECIES, s, p).fma(FloatVector.fromArray(SPECIES, s, q), c0);
                c1 = FloatVector.fromArray(SPECIES, s, p + W).fma(FloatVector.fromArray(SPECIES, s, q + W), c1);
                c2 = FloatVector.fromArray(SPECIES, s, p + 2 * W).fma(FloatVector.fromArray(SPECIES, s, q + 2 * W), c2);
                c3 = FloatVector.fromArray(SPECIES, s, p + 3 * W).fma(FloatVector.fromArray(SPECIES, s, q + 3 * W), c3);
            }
            c0.intoArray(s, lanes + part);
            c1.intoArray(s, lanes + part + W);
            c2.intoArray(s, lanes + part + 2 * W);
            c3.intoArray(s, lanes + part + 3 * W);
        }
        for (int i = whole; i < n; i++) {
            s[lanes + i - whole] = Math.fma(s[x + i], s[y + i], s[lanes + i - whole]);
        }
        return tree(s, lanes);
    }

    private static float tree(float[] s, int lanes) {
        for (int width = LANES / 2; width > 0; width /= 2) {
            for (int i = lanes; i < lanes + width; i++) {
                s[i] += s[i + width];
            }
        }
        return s[lanes];
    }
}
