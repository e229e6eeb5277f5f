package dev.starforge.cpu.elementwise;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.tensor.op.Broadcast;
import dev.starforge.tensor.op.Fn;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/** Elementwise operations, computed in place strip by strip. */
public final class Elementwise {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final int STRIP = Scratch.STRIP;

    private Elementwise() {}

    public static void add(Workers workers, Broadcast broadcast, View a, View b, View y) {
        workers.strips(y.size, (from, count, s, at) -> {
            a.load(from, count, s, at);
            partner(broadcast, a, b, from, count, s, at + STRIP);
            add(s, at, at + STRIP, count);
            y.store(from, count, s, at);
        });
    }

    public static void mul(Workers workers, Broadcast broadcast, View a, View b, View y) {
        workers.strips(y.size, (from, count, s, at) -> {
            a.load(from, count, s, at);
            partner(broadcast, a, b, from, count, s, at + STRIP);
            mul(s, at, at + STRIP, count);
            y.store(from, count, s, at);
        });
    }

    public static void affine(Workers workers, float scale, float shift, View x, View y) {
        workers.strips(y.size, (from, count, s, at) -> {
            x.load(from, count, s, at);
            affine(s, at, count, scale, shift);
            y.store(from, count, s, at);
        });
    }

    public static void map(Workers workers, Fn fn, View x, View y) {
        workers.strips(y.size, (from, count, s, at) -> {
            x.load(from, count, s, at);
            Activation.apply(fn, s, at, at + STRIP, count);
            y.store(from, count, s, at);
        });
    }

    public static void mapGrad(Workers workers, Fn fn, View x, View dy, View dx) {
        workers.strips(dx.size, (from, count, s, at) -> {
            x.load(from, count, s, at);
            Activation.slope(fn, s, at, at + STRIP, count);
            dy.load(from, count, s, at + STRIP);
            mul(s, at, at + STRIP, count);
            dx.store(from, count, s, at);
        });
    }

    public static void cast(Workers workers, View x, View y) {
        workers.strips(y.size, (from, count, s, at) -> {
            x.load(from, count, s, at);
            y.store(from, count, s, at);
        });
    }

    public static void fill(Workers workers, float value, View y) {
        workers.strips(y.size, (from, count, s, at) -> {
            Arrays.fill(s, at, at + count, value);
            y.store(from, count, s, at);
        });
    }

    /** The elements of b that meet a[from..from+count-1]. */
    private static void partner(Broadcast broadcast, View a, View b, long from, int count, float[] s, int at) {
        switch (broadcast) {
            case SAME -> b.load(from, count, s, at);
            case ROW -> {
                for (int i = 0; i < count; ) {
                    long start = (from + i) % b.size;
                    int run = (int) Math.min(count - i, b.size - start);
                    b.load(start, run, s, at + i);
                    i += run;
                }
            }
            case COLUMN -> {
                for (int i = 0; i < count; ) {
                    long row = (from + i) / a.last;
                    int run = (int) Math.min(count - i, (row + 1) * a.last - from - i);
                    Arrays.fill(s, at + i, at + i + run, b.at(row));
                    i += run;
                }
            }
        }
    }

    /** x += y. */
    public static void add(float[] s, int x, int y, int n) {
        for (int i = 0; i < n; i += W) {
            FloatVector sum = FloatVector.fromArray(SPECIES, s, x + i).add(FloatVector.fromArray(SPECIES, s, y + i));
            sum.intoArray(s, x + i);
        }
    }

    /** x *= y. */
    public static void mul(float[] s, int x, int y, int n) {
        for (int i = 0; i < n; i += W) {
            FloatVector product =
                    FloatVector.fromArray(SPECIES, s, x + i).mul(FloatVector.fromArray(SPECIES, s, y + i));
            product.intoArray(s, x + i);
        }
    }

    /** x = scale * x + shift, rounded once. */
    public static void affine(float[] s, int x, int n, float scale, float shift) {
        FloatVector factor = FloatVector.broadcast(SPECIES, scale);
        FloatVector term = FloatVector.broadcast(SPECIES, shift);
        for (int i = x; i < x + n; i += W) {
            FloatVector.fromArray(SPECIES, s, i).fma(factor, term).intoArray(s, i);
        }
    }
}
