package dev.starforge.cpu;

import dev.starforge.tensor.Shape;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/** Turns pairs (i, i + R/2) of every head. Angles are float32 products, as the definition has them; all heads of a token share them. */
final class Rope {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;

    private Rope() {}

    /** Cosines, sines and the two halves of a head. */
    static Scratch scratch(Shape x) {
        return new Scratch(0, 4L * Lanes.pad(x.dim(2), W));
    }

    /** (x[N, H, D], positions, frequencies) -> y. */
    static void run(Workers workers, float magnitude, boolean inverse, Shape shape, View[] in, View y) {
        View x = in[0];
        long heads = shape.dim(1);
        int d = (int) shape.dim(2);
        int half = (int) in[2].size;
        int stride = Lanes.pad(d, W);
        workers.rows(shape.dim(0), heads * d, (n, s, at) -> {
            int cos = at;
            int sin = at + stride;
            int x1 = at + 2 * stride;
            int x2 = at + 3 * stride;
            float position = in[1].index(n);
            for (int i = 0; i < half; i++) {
                float angle = position * in[2].at(i);
                s[cos + i] = (float) (magnitude * StrictMath.cos(angle));
                s[sin + i] = (float) ((inverse ? -magnitude : magnitude) * StrictMath.sin(angle));
            }
            for (long head = n * heads; head < (n + 1) * heads; head++) {
                x.load(head * d, half, s, x1);
                x.load(head * d + half, half, s, x2);
                turn(s, x1, x2, cos, sin, half);
                y.store(head * d, half, s, x1);
                y.store(head * d + half, half, s, x2);
                x.copy(head * d + 2 * half, y, head * d + 2 * half, d - 2 * half);
            }
        });
    }

    private static void turn(float[] s, int x1, int x2, int cos, int sin, int n) {
        for (int i = 0; i < n; i += W) {
            FloatVector a = FloatVector.fromArray(SPECIES, s, x1 + i);
            FloatVector b = FloatVector.fromArray(SPECIES, s, x2 + i);
            FloatVector c = FloatVector.fromArray(SPECIES, s, cos + i);
            FloatVector d = FloatVector.fromArray(SPECIES, s, sin + i);
            a.fma(c, b.mul(d).neg()).intoArray(s, x1 + i);
            b.fma(c, a.mul(d)).intoArray(s, x2 + i);
        }
    }
}
