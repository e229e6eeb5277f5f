package dev.starforge.cli;

import dev.starforge.model.Batches;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.SafetensorsWriter;
import dev.starforge.tensor.EagerOps;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import java.util.List;

/**
 * The logits of one text, [T, V], read in order. The layers run once, at the first read; the product with the vocabulary,
 * whose result may be larger than memory, runs for some rows at a time as they are asked for.
 */
final class StreamedLogits implements SafetensorsWriter.Values {
    private final Model model;
    private final EagerOps ops;
    private final Scope step;
    private final int[] ids;
    private final int vocabulary;
    private final int rowsAtOnce;
    private Tensor hidden;
    private float[] rows = new float[0];
    private long firstElement;

    /** @param elements logits to have at one time; at least a row is */
    StreamedLogits(Model model, EagerOps ops, Scope step, int[] ids, int elements) {
        this.model = model;
        this.ops = ops;
        this.step = step;
        this.ids = ids;
        vocabulary = model.facts().vocabulary();
        rowsAtOnce = Math.max(1, elements / vocabulary);
    }

    Shape shape() {
        return Shape.of(ids.length, vocabulary);
    }

    @Override
    public void read(long first, float[] out, int count) {
        if (first == 0) {
            step.mark();
            hidden = step.within(
                    () -> model.hidden(ops, Batches.packed(model, step, List.of(ids)), KvCache.NONE));
        }
        for (int done = 0; done < count; ) {
            long at = first + done;
            if (at >= firstElement + rows.length) {
                compute(Math.toIntExact(at / vocabulary));
            }
            int from = Math.toIntExact(at - firstElement);
            int copied = Math.min(count - done, rows.length - from);
            System.arraycopy(rows, from, out, done, copied);
            done += copied;
        }
        if (first + count == shape().size()) {
            step.release();
        }
    }

    private void compute(int row) {
        int count = Math.min(rowsAtOnce, ids.length - row);
        long width = hidden.shape().last();
        rows = step.within(() -> step.device()
                .floats(model.logits(ops, hidden.view(row * width, Shape.of(count, width)))));
        firstElement = (long) row * vocabulary;
    }
}
