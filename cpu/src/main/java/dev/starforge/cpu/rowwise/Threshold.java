package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.tensor.TokenWeights;
import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Finds the cutoff value of a distribution at which the tokens above reach a given weight, without sorting. Weights are
 * integers of at most {@link TokenWeights#ONE}; a double sums {@link #BLOCK} of them exactly, in any order.
 */
final class Threshold {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final VectorSpecies<Double> DOUBLES = VectorSpecies.of(double.class, SPECIES.vectorShape());
    private static final int W = Lanes.WIDTH;
    private static final int BLOCK = (int) (0x1p53 / TokenWeights.ONE);

    private Threshold() {}

    /**
     * Returns the highest value at which the candidates of at least this value have the weight {@code needed}. The
     * candidates are arrays of values and weights, which are overwritten. Bisects the range of values.
     */
    static float find(Candidates candidates, int n, long needed) {
        float[] s = candidates.s();
        int values = candidates.first();
        int left = n;
        long missing = needed;
        while (true) {
            float low = lowest(s, values, left);
            float high = highest(s, values, left);
            if (low == high) {
                return low;
            }
            float half = low / 2 + high / 2;
            float middle = half > low ? half : high;
            long upper = atLeast(middle, s, values, values + candidates.stride(), left);
            boolean up = upper >= missing;
            missing -= up ? 0 : upper;
            left = candidates.keep(values, middle, up, left);
        }
    }

    static long total(float[] s, int weights, int n) {
        return atLeast(Float.NEGATIVE_INFINITY, s, weights, weights, n);
    }

    /** Returns the weight of the candidates whose value is at least {@code least}. */
    static long atLeast(float least, float[] s, int values, int weights, int n) {
        long sum = 0;
        for (int i = 0; i < n; i += BLOCK) {
            sum += block(least, s, values + i, weights + i, Math.min(BLOCK, n - i));
        }
        return sum;
    }

    private static long block(float least, float[] s, int values, int weights, int n) {
        DoubleVector even = DoubleVector.zero(DOUBLES);
        DoubleVector odd = even;
        FloatVector zero = FloatVector.zero(SPECIES);
        int whole = SPECIES.loopBound(n);
        for (int i = 0; i < whole; i += W) {
            VectorMask<Float> in = FloatVector.fromArray(SPECIES, s, values + i).compare(VectorOperators.GE, least);
            FloatVector x = zero.blend(FloatVector.fromArray(SPECIES, s, weights + i), in);
            even = even.add(x.convertShape(VectorOperators.F2D, DOUBLES, 0));
            odd = odd.add(x.convertShape(VectorOperators.F2D, DOUBLES, 1));
        }
        double sum = even.add(odd).reduceLanes(VectorOperators.ADD); // exact, so the order does not matter
        for (int i = whole; i < n; i++) {
            sum += s[values + i] >= least ? s[weights + i] : 0;
        }
        return (long) sum;
    }

    private static float lowest(float[] s, int values, int n) {
        FloatVector least = FloatVector.broadcast(SPECIES, Float.POSITIVE_INFINITY);
        int whole = SPECIES.loopBound(n);
        for (int i = 0; i < whole; i += W) {
            least = least.min(FloatVector.fromArray(SPECIES, s, values + i));
        }
        float low = least.reduceLanes(VectorOperators.MIN);
        for (int i = whole; i < n; i++) {
            low = Math.min(low, s[values + i]);
        }
        return low;
    }

    private static float highest(float[] s, int values, int n) {
        FloatVector most = FloatVector.broadcast(SPECIES, Float.NEGATIVE_INFINITY);
        int whole = SPECIES.loopBound(n);
        for (int i = 0; i < whole; i += W) {
            most = most.max(FloatVector.fromArray(SPECIES, s, values + i));
        }
        float high = most.reduceLanes(VectorOperators.MAX);
        for (int i = whole; i < n; i++) {
            high = Math.max(high, s[values + i]);
        }
        return high;
    }
}
