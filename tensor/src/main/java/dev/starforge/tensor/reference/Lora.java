package dev.starforge.tensor.reference;

import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.op.Operands.ExpertLoraInputs;
import dev.starforge.tensor.op.Operands.LoraInputs;

/** Low-rank updates out of tables: y + scale * (x a^T) b^T with the a and b of each row's adapter. */
final class Lora {
    private Lora() {}

    static void rows(LoraInputs<View> in, View y) {
        for (long row = 0; row < y.rows; row++) {
            row(in, y, row, 0, in.index().index(row));
        }
    }

    static void experts(ExpertLoraInputs<View> in, View y) {
        View index = in.lora().index();
        Experts.checkOffsets("ExpertLora", in.offsets(), y.rows);
        for (int e = 0; e + 1 < in.offsets().size; e++) {
            for (long row = in.offsets().index(e); row < in.offsets().index(e + 1); row++) {
                int token = in.tokens().index(row);
                if (token < 0 || token >= index.size) {
                    throw new TensorException("ExpertLora: row " + row + " is of token " + token + " of " + index.size);
                }
                row(in.lora(), y, row, e, index.index(token));
            }
        }
    }

    private static void row(LoraInputs<View> in, View y, long row, int expert, int adapter) {
        long adapters = in.scales().size;
        if (adapter >= adapters) {
            throw new TensorException("Lora: row " + row + " has adapter " + adapter + " of " + adapters);
        }
        long width = in.x().last;
        long out = y.last;
        long rank = in.b().last;
        long matrix = expert * adapters + adapter;
        double[] h = new double[adapter < 0 ? 0 : (int) rank];
        for (int r = 0; r < h.length; r++) {
            for (long i = 0; i < width; i++) {
                h[r] += in.x().at(row * width + i) * in.a().at((matrix * rank + r) * width + i);
            }
        }
        for (long o = 0; o < out; o++) {
            double sum = 0;
            for (int r = 0; r < h.length; r++) {
                sum += h[r] * in.b().at((matrix * out + o) * rank + r);
            }
            double base = in.y().at(row * out + o);
            y.set(row * out + o, adapter < 0 ? base : base + in.scales().at(adapter) * sum);
        }
    }
}
