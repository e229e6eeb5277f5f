package dev.starforge.cpu.matmul;

import static jdk.incubator.vector.VectorOperators.ADD;
import static jdk.incubator.vector.VectorOperators.F2I;
import static jdk.incubator.vector.VectorOperators.MAX;

import dev.starforge.cpu.core.Lanes;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorSpecies;

/** Quantizes activations to int8: groups of 32 consecutive elements share a scale, values are -127 to 127. */
final class Rounding {
    /** Activations that share a step. */
    static final int GROUP = 32;

    /** Activations below it count as nothing: the inverse of their step would be infinite. */
    private static final float SMALLEST = 0x1p-119f;

    /** Added and subtracted again, rounds to whole numbers. */
    private static final float ROUNDER = 0x1.8p23f;

    private static final VectorSpecies<Float> FLOATS = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = FLOATS.withLanes(int.class);
    private static final int W = Lanes.WIDTH;

    private Rounding() {}

    /** 32 numbers as multiples, up to 127, of the step that is returned. Sizes compare as their bits do. */
    static float round(float[] s, int at) {
        IntVector most = IntVector.zero(INTS);
        for (int i = 0; i < GROUP; i += W) {
            most = most.max(FloatVector.fromArray(FLOATS, s, at + i).abs().reinterpretAsInts());
        }
        float largest = Float.intBitsToFloat(most.reduceLanes(MAX));
        float inverse = largest < SMALLEST ? 0 : 127 / largest;
        for (int i = 0; i < GROUP; i += W) {
            FloatVector.fromArray(FLOATS, s, at + i)
                    .mul(inverse)
                    .add(ROUNDER)
                    .sub(ROUNDER)
                    .intoArray(s, at + i);
        }
        return largest / 127;
    }

    /** Of small whole numbers, so that any order will do. */
    static int sum(float[] s, int from, int count) {
        if (count < W) {
            float sum = 0;
            for (int i = from; i < from + count; i++) {
                sum += s[i];
            }
            return (int) sum;
        }
        FloatVector sum = FloatVector.zero(FLOATS);
        for (int i = from; i < from + count; i += W) {
            sum = sum.add(FloatVector.fromArray(FLOATS, s, i));
        }
        return ((IntVector) sum.convert(F2I, 0)).reduceLanes(ADD);
    }
}
