package dev.starforge.model.generate;

import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Batch;
import java.util.Arrays;
import java.util.List;

/**
 * A {@link Batch} of fixed size with its host-side values. The batch's tensors are views of one tensor, so that a step has a
 * single upload. Unused rows are padding: they write to the padding block.
 */
final class StagedBatch {
    private final Tensor all;
    private final Batch batch;
    private final int[] values;
    private final int tokens;
    private final int sequences;
    private final int tableWidth;
    private final int logitRows;
    private final int maskWords;
    private int filledTokens;
    private int filledSequences;
    private int filledRows;

    /**
     * Allocates a batch.
     *
     * @param tableWidth blocks of a block table
     * @param maskWords 32-bit words of a row's token mask; 0 for no masks
     */
    StagedBatch(
            Scope scope,
            int tokens,
            int sequences,
            int tableWidth,
            int blockSize,
            int logitRows,
            int regime,
            int maskWords) {
        this.tokens = tokens;
        this.sequences = sequences;
        this.tableWidth = tableWidth;
        this.logitRows = logitRows;
        this.maskWords = maskWords;
        values = new int[samplingOffset() + DeviceSampler.inputSize(logitRows, maskWords)];
        all = scope.allocate(Spec.i32(values.length));
        batch = new Batch(
                all.view(0, Shape.of(tokens)),
                all.view(tokens, Shape.of(tokens)),
                all.view(startsOffset(), Shape.of(sequences + 1L)),
                all.view(2L * tokens, Shape.of(tokens)),
                all.view(tablesOffset(), Shape.of(sequences, tableWidth)),
                blockSize,
                all.view(rowsOffset(), Shape.of(logitRows)),
                all.view(adaptersOffset(), Shape.of(sequences)),
                all.view(3L * tokens, Shape.of(tokens)),
                regime);
    }

    private int startsOffset() {
        return 4 * tokens;
    }

    private int tablesOffset() {
        return startsOffset() + sequences + 1;
    }

    private int adaptersOffset() {
        return tablesOffset() + sequences * tableWidth;
    }

    private int rowsOffset() {
        return adaptersOffset() + sequences;
    }

    private int samplingOffset() {
        return rowsOffset() + logitRows;
    }

    Batch batch() {
        return batch;
    }

    /** Returns the sampling inputs of all rows of logits, as {@link DeviceSampler} reads them. */
    Tensor samplingInput() {
        return all.view(samplingOffset(), Shape.of(DeviceSampler.inputSize(logitRows, maskWords)));
    }

    /** Returns the 32-bit words of a row's token mask. */
    int maskWords() {
        return maskWords;
    }

    void setSampling(List<Engine.RowSampling> samplings) {
        DeviceSampler.fill(values, samplingOffset(), logitRows, maskWords, samplings);
    }

    void clear() {
        filledTokens = 0;
        filledSequences = 0;
        filledRows = 0;
    }

    /**
     * Adds a chunk of a sequence.
     *
     * @param position of the first token
     * @param slots KV slot of each token
     * @param table the sequence's block table
     * @param logitRows the number of tokens, from the end, whose logits are computed
     */
    void add(int[] ids, int position, int[] slots, int[] table, int adapter, int logitRows) {
        for (int i = 0; i < ids.length; i++) {
            values[filledTokens + i] = ids[i];
            values[tokens + filledTokens + i] = position + i;
            values[2 * tokens + filledTokens + i] = slots[i];
            values[3 * tokens + filledTokens + i] = adapter;
        }
        values[adaptersOffset() + filledSequences] = adapter;
        System.arraycopy(table, 0, values, tablesOffset() + filledSequences * tableWidth, table.length);
        filledTokens += ids.length;
        for (int i = 0; i < logitRows; i++) {
            values[rowsOffset() + filledRows++] = filledTokens - logitRows + i;
        }
        values[startsOffset() + ++filledSequences] = filledTokens;
    }

    /** Fills the rest with padding sequences of one token in the padding block, and uploads everything. */
    void upload(Device device, int paddingBlock) {
        for (; filledSequences < sequences; filledSequences++) {
            values[filledTokens] = 0;
            values[tokens + filledTokens] = 0;
            values[2 * tokens + filledTokens] = paddingBlock * batch.block();
            values[3 * tokens + filledTokens] = Batch.BASE;
            values[adaptersOffset() + filledSequences] = Batch.BASE;
            int table = tablesOffset() + filledSequences * tableWidth;
            Arrays.fill(values, table, table + tableWidth, paddingBlock);
            values[rowsOffset() + filledRows++] = filledTokens++;
            values[startsOffset() + filledSequences + 1] = filledTokens;
        }
        device.write(all, values);
    }
}
