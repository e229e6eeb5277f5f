package dev.starforge.cpu.elementwise;

import dev.starforge.cpu.core.Exp;
import dev.starforge.cpu.core.Lanes;
import dev.starforge.tensor.op.Fn;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * The elementwise functions and their slopes, in place over a strip. SiLU and GELU are both x times a logistic function:
 * 0.5 x (1 + tanh u) = x / (1 + e^-2u), which also loses no digits where tanh is near -1; the logistic function itself has
 * 1 in place of that x. Sine and cosine go through {@link StrictMath}: they are rare, and their range reduction is not
 * worth a second copy.
 */
final class Activation {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final float CUBIC = 0.044715f;
    private static final float TWICE_ROOT_2_OVER_PI = 1.5957691216f;

    private Activation() {}

    /** s[x..x+n-1] to fn of it, with as much scratch at t. */
    static void apply(Fn fn, float[] s, int x, int t, int n) {
        switch (fn) {
            case IDENTITY -> {}
            case EXP -> Exp.run(s, x, n);
            case RSQRT -> rsqrt(s, x, n);
            case RECIPROCAL -> reciprocal(s, x, n);
            case SIGMOID -> {
                minus(s, x, x, n);
                Exp.run(s, x, n);
                Elementwise.affine(s, x, n, 1, 1);
                reciprocal(s, x, n);
            }
            case SIN -> sin(s, x, n, 1);
            case COS -> cos(s, x, n);
            case SILU -> {
                minus(s, x, t, n);
                Exp.run(s, t, n);
                logistic(s, x, t, n);
            }
            case GELU_TANH -> {
                minusTwiceCubic(s, x, t, n);
                Exp.run(s, t, n);
                logistic(s, x, t, n);
            }
        }
    }

    /** s[x..x+n-1] to the slope of fn there, with as much scratch at t. */
    static void slope(Fn fn, float[] s, int x, int t, int n) {
        switch (fn) {
            case IDENTITY -> Arrays.fill(s, x, x + n, 1);
            case EXP -> Exp.run(s, x, n);
            case RSQRT -> rsqrtSlope(s, x, n);
            case RECIPROCAL -> reciprocalSlope(s, x, n);
            case SIGMOID -> {
                minus(s, x, x, n);
                Exp.run(s, x, n);
                sigmoidSlope(s, x, n);
            }
            case SIN -> cos(s, x, n);
            case COS -> sin(s, x, n, -1);
            case SILU -> {
                minus(s, x, t, n);
                Exp.run(s, t, n);
                logisticSlope(s, x, t, n, 1, 0);
            }
            case GELU_TANH -> {
                minusTwiceCubic(s, x, t, n);
                Exp.run(s, t, n);
                logisticSlope(s, x, t, n, TWICE_ROOT_2_OVER_PI, 3 * CUBIC);
            }
        }
    }

    private static void rsqrt(float[] s, int x, int n) {
        FloatVector one = FloatVector.broadcast(SPECIES, 1);
        for (int i = x; i < x + n; i += W) {
            one.div(FloatVector.fromArray(SPECIES, s, i).sqrt()).intoArray(s, i);
        }
    }

    private static void rsqrtSlope(float[] s, int x, int n) {
        FloatVector minusHalf = FloatVector.broadcast(SPECIES, -0.5f);
        for (int i = x; i < x + n; i += W) {
            FloatVector v = FloatVector.fromArray(SPECIES, s, i);
            minusHalf.div(v.mul(v.sqrt())).intoArray(s, i);
        }
    }

    private static void reciprocal(float[] s, int x, int n) {
        FloatVector one = FloatVector.broadcast(SPECIES, 1);
        for (int i = x; i < x + n; i += W) {
            one.div(FloatVector.fromArray(SPECIES, s, i)).intoArray(s, i);
        }
    }

    /** The square of the quotient: the quotient by the square would leave the range of float32 sooner. */
    private static void reciprocalSlope(float[] s, int x, int n) {
        FloatVector one = FloatVector.broadcast(SPECIES, 1);
        for (int i = x; i < x + n; i += W) {
            FloatVector y = one.div(FloatVector.fromArray(SPECIES, s, i));
            y.mul(y).neg().intoArray(s, i);
        }
    }

    /** p (1 - p), where p = 1 / (1 + e) and e is there; 1 - p as in {@link #logisticSlope}. */
    private static void sigmoidSlope(float[] s, int x, int n) {
        FloatVector one = FloatVector.broadcast(SPECIES, 1);
        for (int i = x; i < x + n; i += W) {
            FloatVector e = FloatVector.fromArray(SPECIES, s, i);
            FloatVector p = one.div(e.add(1));
            FloatVector rest = e.mul(p).blend(one.sub(p), e.compare(VectorOperators.GT, 1));
            p.mul(rest).intoArray(s, i);
        }
    }

    private static void sin(float[] s, int x, int n, int sign) {
        for (int i = x; i < x + n; i++) {
            s[i] = (float) (sign * StrictMath.sin(s[i]));
        }
    }

    private static void cos(float[] s, int x, int n) {
        for (int i = x; i < x + n; i++) {
            s[i] = (float) StrictMath.cos(s[i]);
        }
    }

    /** t = -x, what goes into the exponential for SiLU; t may be x. */
    private static void minus(float[] s, int x, int t, int n) {
        for (int i = 0; i < n; i += W) {
            FloatVector.fromArray(SPECIES, s, x + i).neg().intoArray(s, t + i);
        }
    }

    /** t = -2u, what goes into the exponential for GELU. */
    private static void minusTwiceCubic(float[] s, int x, int t, int n) {
        for (int i = 0; i < n; i += W) {
            FloatVector v = FloatVector.fromArray(SPECIES, s, x + i);
            v.mul(-TWICE_ROOT_2_OVER_PI).mul(v.mul(v).mul(CUBIC).add(1)).intoArray(s, t + i);
        }
    }

    /** x = x / (1 + e) with e at t. */
    private static void logistic(float[] s, int x, int t, int n) {
        for (int i = 0; i < n; i += W) {
            FloatVector v = FloatVector.fromArray(SPECIES, s, x + i);
            v.div(FloatVector.fromArray(SPECIES, s, t + i).add(1)).intoArray(s, x + i);
        }
    }

    /**
     * x = p (1 + x (1 - p) z'), where p = 1 / (1 + e), e at t, and z' = linear (1 + square x^2) is the slope of what went
     * into the exponential. 1 - p is e p as long as e is small, so that nothing cancels.
     */
    private static void logisticSlope(float[] s, int x, int t, int n, float linear, float square) {
        FloatVector one = FloatVector.broadcast(SPECIES, 1);
        for (int i = 0; i < n; i += W) {
            FloatVector v = FloatVector.fromArray(SPECIES, s, x + i);
            FloatVector e = FloatVector.fromArray(SPECIES, s, t + i);
            FloatVector p = one.div(e.add(1));
            FloatVector rest = e.mul(p).blend(one.sub(p), e.compare(VectorOperators.GT, 1));
            FloatVector inner = v.mul(square).mul(v).add(1).mul(linear);
            p.mul(v.mul(rest).fma(inner, one)).intoArray(s, x + i);
        }
    }
}
