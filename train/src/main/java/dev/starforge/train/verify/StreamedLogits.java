package dev.starforge.train.verify;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.model.kv.Batches;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.EagerOps;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The logits of one sequence, [T, V], read in order. The layers run once, at the first read. The LM head, whose output
 * may exceed memory, runs for some rows at a time on demand.
 */
public final class StreamedLogits implements SafetensorsWriter.ElementWriter {
    private static final String IN_ORDER = "logits: expected to be read in order, from the first row";

    private final Model model;
    private final EagerOps ops;
    private final Scope step;
    private final int[] ids;
    private final int vocabulary;
    private final int rowsAtOnce;
    private @Nullable Tensor hidden;
    private @Nullable Tensor logits;
    private int firstRow;
    private int endRow;

    /** @param elements number of logits to hold at one time, but at least one row */
    public StreamedLogits(Model model, EagerOps ops, Scope step, int[] ids, int elements) {
        this.model = model;
        this.ops = ops;
        this.step = step;
        this.ids = ids;
        vocabulary = model.info().vocabSize();
        rowsAtOnce = Math.max(1, elements / vocabulary);
    }

    public SafetensorsWriter.SafetensorsEntry entry(String name) {
        return new SafetensorsWriter.SafetensorsEntry(name, DType.F32.name(), shape(), this);
    }

    private Shape shape() {
        return Shape.of(ids.length, vocabulary);
    }

    @Override
    public void put(long first, int count, ByteBuffer into) {
        if (first == 0) {
            step.mark();
            hidden =
                    step.within(() -> model.hiddenStates(ops, Batches.packed(model, step, List.of(ids)), KvCache.NONE));
        }
        for (long at = first; at < first + count; ) {
            if (at / vocabulary >= endRow) {
                compute();
            }
            Tensor rows = Objects.requireNonNull(logits, IN_ORDER);
            long from = at - (long) firstRow * vocabulary;
            int taken = (int) Math.min(first + count - at, rows.shape().size() - from);
            int bytes = taken * Float.BYTES;
            step.device().read(rows.view(from, Shape.of(taken)), into.slice(into.position(), bytes));
            into.position(into.position() + bytes);
            at += taken;
        }
        if (first + count == shape().size()) {
            step.release();
            step.release();
        }
    }

    /** Computes the next rows; they overwrite the previous ones. */
    private void compute() {
        if (endRow > 0) {
            step.release();
        }
        step.mark();
        firstRow = endRow;
        endRow = Math.min(firstRow + rowsAtOnce, ids.length);
        Tensor all = Objects.requireNonNull(hidden, IN_ORDER);
        long width = all.shape().last();
        Tensor rows = all.view(firstRow * width, Shape.of(endRow - firstRow, width));
        logits = step.within(() -> model.logits(ops, rows));
    }
}
