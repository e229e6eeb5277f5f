package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Exp;
import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.Sums;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** Softmax by rows, each in strips, since a row of logits does not fit into the L1 cache. */
public final class Softmax {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final int STRIP = Scratch.STRIP;

    private Softmax() {}

    public static void softmax(Workers workers, View x, View y) {
        workers.rows(x.rows, x.last, (row, s, at) -> {
            float max = max(x, row, s, at);
            float factor = (float) (1 / sumOfExp(x, row, max, s, at));
            for (long i = 0; i < x.last; i += STRIP) {
                int count = (int) Math.min(STRIP, x.last - i);
                exp(x, row * x.last + i, count, max, s, at);
                Elementwise.affine(s, at, count, factor, 0);
                y.store(row * x.last + i, count, s, at);
            }
        });
    }

    /** (y, dy) -> dx. */
    public static void softmaxGrad(Workers workers, View y, View dy, View dx) {
        workers.rows(y.rows, y.last, (row, s, at) -> {
            double dot = 0;
            for (long i = 0; i < y.last; i += STRIP) {
                int count = (int) Math.min(STRIP, y.last - i);
                y.load(row * y.last + i, count, s, at);
                dy.load(row * y.last + i, count, s, at + STRIP);
                dot += Sums.dot(s, at, at + STRIP, count, at + 2 * STRIP);
            }
            for (long i = 0; i < y.last; i += STRIP) {
                int count = (int) Math.min(STRIP, y.last - i);
                y.load(row * y.last + i, count, s, at);
                dy.load(row * y.last + i, count, s, at + STRIP);
                Elementwise.affine(s, at + STRIP, count, 1, (float) -dot);
                Elementwise.mul(s, at, at + STRIP, count);
                dx.store(row * y.last + i, count, s, at);
            }
        });
    }

    public static void logSumExp(Workers workers, View x, View y) {
        workers.rows(x.rows, x.last, (row, s, at) -> y.set(row, (float) logSumExp(x, row, s, at)));
    }

    public static void argmax(Workers workers, View x, View y) {
        workers.rows(x.rows, x.last, (row, s, at) -> {
            long best = 0;
            float most = Float.NEGATIVE_INFINITY;
            for (long i = 0; i < x.last; i += STRIP) {
                int count = (int) Math.min(STRIP, x.last - i);
                x.load(row * x.last + i, count, s, at);
                Arrays.fill(s, at + count, at + Lanes.pad(count, W), Float.NEGATIVE_INFINITY);
                float highest = highest(s, at, count, at + STRIP);
                if (highest > most) {
                    most = highest;
                    int first = 0;
                    while (s[at + first] != highest) {
                        first++;
                    }
                    best = i + first;
                }
            }
            y.setIndex(row, (int) best);
        });
    }

    static double logSumExp(View x, long row, float[] s, int at) {
        float max = max(x, row, s, at);
        return max == Float.NEGATIVE_INFINITY ? max : max + StrictMath.log(sumOfExp(x, row, max, s, at));
    }

    /** Writes exp(x - max) of part of a row to s[at..]. */
    static void exp(View x, long from, int count, float max, float[] s, int at) {
        x.load(from, count, s, at);
        Elementwise.affine(s, at, count, 1, -max);
        Exp.run(s, at, count);
    }

    private static double sumOfExp(View x, long row, float max, float[] s, int at) {
        double sum = 0;
        for (long i = 0; i < x.last; i += STRIP) {
            int count = (int) Math.min(STRIP, x.last - i);
            exp(x, row * x.last + i, count, max, s, at);
            sum += Sums.sum(s, at, count, at + STRIP);
        }
        return sum;
    }

    private static float max(View x, long row, float[] s, int at) {
        float max = Float.NEGATIVE_INFINITY;
        for (long i = 0; i < x.last; i += STRIP) {
            int count = (int) Math.min(STRIP, x.last - i);
            x.load(row * x.last + i, count, s, at);
            Arrays.fill(s, at + count, at + Lanes.pad(count, W), Float.NEGATIVE_INFINITY);
            max = Math.max(max, max(s, at, count, at + STRIP));
        }
        return max;
    }

    /** Returns the maximum, or NaN if there is one. The strip is padded with -infinity to whole vectors. */
    static float max(float[] s, int x, int n, int lanes) {
        FloatVector most = FloatVector.broadcast(SPECIES, Float.NEGATIVE_INFINITY);
        for (int i = x; i < x + n; i += W) {
            most = most.max(FloatVector.fromArray(SPECIES, s, i));
        }
        most.intoArray(s, lanes);
        float max = Float.NEGATIVE_INFINITY;
        for (int i = lanes; i < lanes + W; i++) {
            max = Math.max(max, s[i]);
        }
        return max;
    }

    /** Returns the maximum ignoring NaN. The strip is padded with -infinity to whole vectors. */
    private static float highest(float[] s, int x, int n, int lanes) {
        FloatVector most = FloatVector.broadcast(SPECIES, Float.NEGATIVE_INFINITY);
        for (int i = x; i < x + n; i += W) {
            FloatVector v = FloatVector.fromArray(SPECIES, s, i);
            most = most.blend(v, v.compare(VectorOperators.GT, most));
        }
        most.intoArray(s, lanes);
        float highest = Float.NEGATIVE_INFINITY;
        for (int i = lanes; i < lanes + W; i++) {
            highest = s[i] > highest ? s[i] : highest;
        }
        return highest;
    }
}
