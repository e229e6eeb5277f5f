package dev.starforge.tensor.reference;

import dev.starforge.tensor.op.Broadcast;
import dev.starforge.tensor.op.Fn;

final class Elementwise {
    private Elementwise() {}

    private static long partner(Broadcast broadcast, long i, View a, View b) {
        return switch (broadcast) {
            case SAME -> i;
            case ROW -> i % b.size;
            case COLUMN -> i / a.last;
        };
    }

    static void add(View a, View b, Broadcast broadcast, View y) {
        for (long i = 0; i < y.size; i++) {
            y.set(i, a.at(i) + b.at(partner(broadcast, i, a, b)));
        }
    }

    static void accumulate(View sum, View x) {
        for (long i = 0; i < sum.size; i++) {
            sum.set(i, sum.at(i) + x.at(i));
        }
    }

    static void mul(View a, View b, Broadcast broadcast, View y) {
        for (long i = 0; i < y.size; i++) {
            y.set(i, a.at(i) * b.at(partner(broadcast, i, a, b)));
        }
    }

    static void affine(double scale, double shift, View x, View y) {
        for (long i = 0; i < y.size; i++) {
            y.set(i, scale * x.at(i) + shift);
        }
    }

    static void map(Fn fn, View x, View y) {
        for (long i = 0; i < y.size; i++) {
            y.set(i, fn.apply(x.at(i)));
        }
    }

    static void mapGrad(Fn fn, View x, View dy, View dx) {
        for (long i = 0; i < dx.size; i++) {
            dx.set(i, fn.slope(x.at(i)) * dy.at(i));
        }
    }

    static void cast(View x, View y) {
        for (long i = 0; i < y.size; i++) {
            y.set(i, x.at(i));
        }
    }
}
