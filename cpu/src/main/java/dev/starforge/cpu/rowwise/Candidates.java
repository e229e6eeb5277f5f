package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Lanes;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * What is known of some tokens, in arrays of one length that are {@code stride} apart, a whole number of vectors. To keep some
 * of them is to close the gaps in all arrays. Whether a token is kept goes by vectors: a branch for each would be guessed wrong
 * every other time, while most vectors are kept as they are or dropped.
 */
record Candidates(float[] s, int first, int stride, int arrays) {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final long ALL = (1L << W) - 1;

    /** Keeps those of n whose value in {@code tested} is no less, or is less; returns how many there are. */
    int keep(int tested, float least, boolean noLess, int n) {
        long flip = noLess ? 0 : ALL;
        int kept = 0;
        for (int i = 0; i < n; i += W) {
            long in = FloatVector.fromArray(SPECIES, s, tested + i)
                            .compare(VectorOperators.GE, least)
                            .toLong()
                    ^ flip;
            in &= n - i < W ? (1L << n - i) - 1 : ALL;
            if (in == ALL) {
                copy(i, kept);
                kept += W;
            } else {
                for (; in != 0; in &= in - 1) {
                    move(i + Long.numberOfTrailingZeros(in), kept++);
                }
            }
        }
        return kept;
    }

    private void copy(int from, int to) {
        for (int at = first; from != to && at < first + arrays * stride; at += stride) {
            FloatVector.fromArray(SPECIES, s, at + from).intoArray(s, at + to);
        }
    }

    private void move(int from, int to) {
        for (int at = first; at < first + arrays * stride; at += stride) {
            s[at + to] = s[at + from];
        }
    }
}
