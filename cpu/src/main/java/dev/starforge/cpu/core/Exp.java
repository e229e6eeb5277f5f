package dev.starforge.cpu.core;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * The exponential, in place over an array. Not {@code lanewise(EXP)}: the interpreter and the compiler give different last
 * bits there, and a result must not depend on when a method got hot. Here are only operations that IEEE 754 rounds
 * exactly: x = n ln 2 + r with |r| <= ln(2) / 2, the Taylor series of e^r to r^7 / 7! (what is left out is below 6e-9 of
 * the result), then two multiplications by powers of two, since 2^n itself may be past either end of the range. The error
 * stays below one unit in the last place; -infinity gives 0, what is too large infinity, NaN itself.
 */
public final class Exp {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final float LOWEST = -104; // below: 0
    private static final float HIGHEST = 89; // above: infinity
    private static final float LOG2_E = 1.44269504f;
    private static final float LN2_HIGH = 0x1.62e4p-1f; // few enough bits that n * LN2_HIGH is exact
    private static final float LN2_LOW = 0x1.7f7d1cp-20f;
    private static final float ROUND = 0x1.8p23f; // adding it leaves an integer in the low bits of the sum
    private static final int ROUND_BITS = 0x4b400000;

    private Exp() {}

    /** s[x..x+n-1] to its exponential; up to a vector more is overwritten behind the end. */
    public static void run(float[] s, int x, int n) {
        FloatVector round = FloatVector.broadcast(SPECIES, ROUND);
        FloatVector log2e = FloatVector.broadcast(SPECIES, LOG2_E);
        FloatVector high = FloatVector.broadcast(SPECIES, -LN2_HIGH);
        FloatVector low = FloatVector.broadcast(SPECIES, -LN2_LOW);
        FloatVector one = FloatVector.broadcast(SPECIES, 1);
        FloatVector half = FloatVector.broadcast(SPECIES, 1f / 2);
        FloatVector c3 = FloatVector.broadcast(SPECIES, 1f / 6);
        FloatVector c4 = FloatVector.broadcast(SPECIES, 1f / 24);
        FloatVector c5 = FloatVector.broadcast(SPECIES, 1f / 120);
        FloatVector c6 = FloatVector.broadcast(SPECIES, 1f / 720);
        FloatVector c7 = FloatVector.broadcast(SPECIES, 1f / 5040);
        for (int i = x; i < x + n; i += Lanes.WIDTH) {
            FloatVector v = FloatVector.fromArray(SPECIES, s, i);
            v = v.blend(LOWEST, v.compare(VectorOperators.LT, LOWEST));
            v = v.blend(HIGHEST, v.compare(VectorOperators.GT, HIGHEST));
            FloatVector shifted = v.fma(log2e, round);
            FloatVector whole = shifted.sub(round);
            FloatVector r = whole.fma(low, whole.fma(high, v));
            FloatVector p = c7.fma(r, c6);
            p = p.fma(r, c5);
            p = p.fma(r, c4);
            p = p.fma(r, c3);
            p = p.fma(r, half);
            p = p.fma(r, one);
            p = p.fma(r, one);
            IntVector exponent = shifted.reinterpretAsInts().sub(ROUND_BITS);
            IntVector first = exponent.lanewise(VectorOperators.ASHR, 1);
            IntVector second = exponent.sub(first);
            FloatVector scale1 =
                    first.add(127).lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats();
            FloatVector scale2 =
                    second.add(127).lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats();
            p.mul(scale1).mul(scale2).intoArray(s, i);
        }
    }
}
