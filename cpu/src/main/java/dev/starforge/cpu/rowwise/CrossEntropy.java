package dev.starforge.cpu.rowwise;

import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.tensor.op.Operands.CrossEntropyGradInputs;

/** Cross-entropy over the rows of logits. The forward pass allocates no second matrix of their size. */
public final class CrossEntropy {
    private static final int STRIP = Scratch.STRIP;

    private CrossEntropy() {}

    /** (logits, labels, weights) -> losses, lse. */
    public static void forward(Workers workers, View[] in, View[] out) {
        View logits = in[0];
        workers.rows(logits.rows, logits.last, (row, s, at) -> {
            double lse = Softmax.logSumExp(logits, row, s, at);
            int label = in[1].index(row);
            double target = label >= 0 && label < logits.last ? logits.at(row * logits.last + label) : 0;
            out[0].set(row, (float) (in[2].at(row) * (lse - target)));
            out[1].set(row, (float) lse);
        });
    }

    /** (logits, labels, weights, lse, dlosses) -> dlogits. */
    public static void gradient(Workers workers, CrossEntropyGradInputs<View> in, View dlogits) {
        View logits = in.logits();
        workers.rows(logits.rows, logits.last, (row, s, at) -> {
            float scale = in.weights().at(row) * in.dlosses().at(row);
            int label = in.labels().index(row);
            for (long i = 0; i < logits.last; i += STRIP) {
                int count = (int) Math.min(STRIP, logits.last - i);
                Softmax.exp(logits, row * logits.last + i, count, in.lse().at(row), s, at);
                if (label >= i && label < i + count) {
                    s[at + (int) (label - i)] -= 1;
                }
                Elementwise.affine(s, at, count, scale, 0);
                dlogits.store(row * logits.last + i, count, s, at);
            }
        });
    }
}
