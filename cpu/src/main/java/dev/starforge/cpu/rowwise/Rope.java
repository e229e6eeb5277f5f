package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.tensor.Shape;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Rotates the pairs (i, i + R/2) of every head. Angles are float32 products, as in the definition; all heads of a token
 * share them. All layers of a step use the same angles, and computing sines costs as much as rotating a head, so the
 * values for a few tokens are cached until positions or frequencies change.
 */
public final class Rope {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final int MAX_CACHED_TOKENS = 16;

    private int[] positions = {};
    private float[] frequencies = {};
    private float magnitude;
    private float[] cos = {};
    private float[] sin = {};

    /** Cosines, sines and the two halves of a head. */
    public static Scratch scratch(Shape x) {
        return new Scratch(0, 4L * Lanes.pad(x.dim(2), W));
    }

    /** (x[N, H, D], positions, frequencies) -> y. */
    public void run(Workers workers, float magnitude, boolean inverse, Shape shape, View[] in, View y) {
        View x = in[0];
        long heads = shape.dim(1);
        int d = (int) shape.dim(2);
        int half = (int) in[2].size;
        int stride = Lanes.pad(d, W);
        boolean kept = shape.dim(0) <= MAX_CACHED_TOKENS;
        if (kept && !isKept(magnitude, in[1], in[2])) {
            keep(magnitude, in[1], in[2]);
        }
        workers.rows(shape.dim(0), heads * d, (n, s, at) -> {
            int c = at;
            int sine = at + stride;
            int x1 = at + 2 * stride;
            int x2 = at + 3 * stride;
            if (kept) {
                System.arraycopy(cos, (int) n * half, s, c, half);
                System.arraycopy(sin, (int) n * half, s, sine, half);
            } else {
                angles(magnitude, in[1].index(n), in[2], s, c, s, sine);
            }
            if (inverse) {
                Elementwise.affine(s, sine, half, -1, 0);
            }
            for (long head = n * heads; head < (n + 1) * heads; head++) {
                x.load(head * d, half, s, x1);
                x.load(head * d + half, half, s, x2);
                turn(s, x1, x2, c, sine, half);
                y.store(head * d, half, s, x1);
                y.store(head * d + half, half, s, x2);
                x.copy(head * d + 2 * half, y, head * d + 2 * half, d - 2 * half);
            }
        });
    }

    private boolean isKept(float magnitude, View at, View by) {
        boolean same = this.magnitude == magnitude && positions.length == at.size && frequencies.length == by.size;
        for (int n = 0; same && n < positions.length; n++) {
            same = positions[n] == at.index(n);
        }
        for (int i = 0; same && i < frequencies.length; i++) {
            same = frequencies[i] == by.at(i);
        }
        return same;
    }

    private void keep(float magnitude, View at, View by) {
        int tokens = (int) at.size;
        int half = (int) by.size;
        if (frequencies.length != half || positions.length != tokens) {
            positions = new int[tokens];
            frequencies = new float[half];
            cos = new float[tokens * half];
            sin = new float[tokens * half];
        }
        this.magnitude = magnitude;
        Arrays.setAll(positions, at::index);
        for (int i = 0; i < half; i++) {
            frequencies[i] = by.at(i);
        }
        for (int n = 0; n < tokens; n++) {
            angles(magnitude, positions[n], by, cos, n * half, sin, n * half);
        }
    }

    private static void angles(float magnitude, float position, View by, float[] cos, int c, float[] sin, int s) {
        for (int i = 0; i < by.size; i++) {
            float angle = position * by.at(i);
            cos[c + i] = (float) (magnitude * StrictMath.cos(angle));
            sin[s + i] = (float) (magnitude * StrictMath.sin(angle));
        }
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
