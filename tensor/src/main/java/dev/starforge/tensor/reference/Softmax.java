package dev.starforge.tensor.reference;

final class Softmax {
    private Softmax() {}

    static double logSumExp(View x, long row) {
        double max = Double.NEGATIVE_INFINITY;
        for (long i = 0; i < x.last; i++) {
            max = Math.max(max, x.at(row * x.last + i));
        }
        if (max == Double.NEGATIVE_INFINITY) {
            return max;
        }
        double sum = 0;
        for (long i = 0; i < x.last; i++) {
            sum += Math.exp(x.at(row * x.last + i) - max);
        }
        return max + Math.log(sum);
    }

    static void softmax(View x, View y) {
        for (long row = 0; row < x.rows; row++) {
            double lse = logSumExp(x, row);
            for (long i = row * x.last; i < (row + 1) * x.last; i++) {
                y.set(i, Math.exp(x.at(i) - lse));
            }
        }
    }

    static void softmaxGrad(View y, View dy, View dx) {
        for (long row = 0; row < y.rows; row++) {
            double dot = 0;
            for (long i = row * y.last; i < (row + 1) * y.last; i++) {
                dot += y.at(i) * dy.at(i);
            }
            for (long i = row * y.last; i < (row + 1) * y.last; i++) {
                dx.set(i, y.at(i) * (dy.at(i) - dot));
            }
        }
    }

    static void logSumExp(View x, View y) {
        for (long row = 0; row < x.rows; row++) {
            y.set(row, logSumExp(x, row));
        }
    }

    static void argmax(View x, View y) {
        for (long row = 0; row < x.rows; row++) {
            long best = 0;
            double most = Double.NEGATIVE_INFINITY;
            for (long i = 0; i < x.last; i++) {
                if (x.at(row * x.last + i) > most) {
                    most = x.at(row * x.last + i);
                    best = i;
                }
            }
            y.set(row, best);
        }
    }
}
