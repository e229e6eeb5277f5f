package dev.starforge.tensor.reference;

import dev.starforge.tensor.Shape;

final class MatMul {
    private MatMul() {}

    static void run(boolean ta, boolean tb, Shape shapeA, Shape shapeB, View a, View b, View c) {
        long m = shapeA.dim(ta ? -1 : -2);
        long k = shapeA.dim(ta ? -2 : -1);
        long n = shapeB.dim(tb ? -2 : -1);
        long batches = m * n == 0 ? 0 : c.size / (m * n);
        for (long batch = 0; batch < batches; batch++) {
            for (long i = 0; i < m; i++) {
                for (long j = 0; j < n; j++) {
                    double sum = 0;
                    for (long p = 0; p < k; p++) {
                        double x = a.at(batch * m * k + (ta ? p * m + i : i * k + p));
                        double y = b.at(batch * k * n + (tb ? j * k + p : p * n + j));
                        sum += x * y;
                    }
                    c.set((batch * m + i) * n + j, sum);
                }
            }
        }
    }
}
