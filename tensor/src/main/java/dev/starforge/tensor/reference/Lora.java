package dev.starforge.tensor.reference;

import dev.starforge.tensor.TensorException;

/** Low-rank updates out of tables: y + scale * (x a^T) b^T with the a and b of each row's adapter. */
final class Lora {
    private Lora() {}

    /** (y, x, a, b, scales, index) -> y. */
    static void rows(View[] in, View y) {
        for (long row = 0; row < y.rows; row++) {
            row(in, y, row, 0, in[5].index(row));
        }
    }

    /** (y, x, a, b, scales, index, tokens, offsets) -> y. */
    static void experts(View[] in, View y) {
        Experts.checkOffsets("ExpertLora", in[7], y.rows);
        for (int e = 0; e + 1 < in[7].size; e++) {
            for (long row = in[7].index(e); row < in[7].index(e + 1); row++) {
                int token = in[6].index(row);
                if (token < 0 || token >= in[5].size) {
                    throw new TensorException("ExpertLora: row " + row + " is of token " + token + " of " + in[5].size);
                }
                row(in, y, row, e, in[5].index(token));
            }
        }
    }

    private static void row(View[] in, View y, long row, int expert, int adapter) {
        long adapters = in[4].size;
        if (adapter >= adapters) {
            throw new TensorException("Lora: row " + row + " has adapter " + adapter + " of " + adapters);
        }
        long width = in[1].last;
        long out = y.last;
        long rank = in[3].last;
        long matrix = expert * adapters + adapter;
        double[] h = new double[adapter < 0 ? 0 : (int) rank];
        for (int r = 0; r < h.length; r++) {
            for (long i = 0; i < width; i++) {
                h[r] += in[1].at(row * width + i) * in[2].at((matrix * rank + r) * width + i);
            }
        }
        for (long o = 0; o < out; o++) {
            double sum = 0;
            for (int r = 0; r < h.length; r++) {
                sum += h[r] * in[3].at((matrix * out + o) * rank + r);
            }
            double base = in[0].at(row * out + o);
            y.set(row * out + o, adapter < 0 ? base : base + in[4].at(adapter) * sum);
        }
    }
}
