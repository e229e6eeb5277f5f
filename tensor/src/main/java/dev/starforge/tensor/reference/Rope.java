package dev.starforge.tensor.reference;

import dev.starforge.tensor.Shape;

final class Rope {
    private Rope() {}

    static void run(double magnitude, boolean inverse, Shape shape, View[] in, View y) {
        View x = in[0];
        long heads = shape.dim(1);
        long d = shape.dim(2);
        long half = in[2].size;
        for (long n = 0; n < shape.dim(0); n++) {
            for (long i = 0; i < half; i++) {
                float angle = (float) in[1].at(n) * (float) in[2].at(i); // float32 by definition, as HF has it
                double cos = magnitude * Math.cos(angle);
                double sin = magnitude * Math.sin(angle) * (inverse ? -1 : 1);
                for (long h = 0; h < heads; h++) {
                    long at = (n * heads + h) * d + i;
                    double x1 = x.at(at);
                    double x2 = x.at(at + half);
                    y.set(at, x1 * cos - x2 * sin);
                    y.set(at + half, x2 * cos + x1 * sin);
                }
            }
            for (long h = 0; h < heads; h++) {
                for (long i = 2 * half; i < d; i++) {
                    y.set((n * heads + h) * d + i, x.at((n * heads + h) * d + i));
                }
            }
        }
    }
}
