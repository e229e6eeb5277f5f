package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Lanes;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Attributes of candidate tokens, in parallel arrays that are {@code stride} elements (whole vectors) apart. Filtering
 * compacts all arrays. It tests whole vectors: a branch per token would be mispredicted often, while most vectors are
 * kept or dropped as a whole.
 */
record Candidates(float[] s, int first, int stride, int arrays) {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final long ALL = (1L << W) - 1;

    /** Keeps the candidates whose value in {@code tested} is at least (or below) a threshold. Returns their number. */
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
