package dev.starforge.tensor.reference;

import dev.starforge.tensor.op.Operands.CrossEntropyGradInputs;

final class CrossEntropy {
    private CrossEntropy() {}

    /** (logits, labels, weights) -> losses, lse. */
    static void forward(View[] in, View[] out) {
        View logits = in[0];
        for (long row = 0; row < logits.rows; row++) {
            double lse = Softmax.logSumExp(logits, row);
            int label = in[1].index(row);
            double target = label >= 0 && label < logits.last ? logits.at(row * logits.last + label) : 0;
            out[0].set(row, in[2].at(row) * (lse - target));
            out[1].set(row, lse);
        }
    }

    /** (logits, labels, weights, lse, dlosses) -> dlogits. */
    static void gradient(CrossEntropyGradInputs<View> in, View out) {
        View logits = in.logits();
        for (long row = 0; row < logits.rows; row++) {
            double scale = in.weights().at(row) * in.dlosses().at(row);
            for (long i = 0; i < logits.last; i++) {
                double p = Math.exp(logits.at(row * logits.last + i) - in.lse().at(row));
                double target = in.labels().index(row) == i ? 1 : 0;
                out.set(row * logits.last + i, scale * (p - target));
            }
        }
    }
}
