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
 * A {@link Batch} of one size and the numbers to fill it with: its tensors are views of a single one, so that a step has a
 * single upload. Rows and sequences that are not filled go to the sink.
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
     * So many tokens of so many sequences whose tables have {@code width} blocks, and so many rows of logits.
     *
     * @param words of a mask of tokens to choose from, for each of these rows; 0 is none
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

    /** How to choose after each row that has logits. */
    Tensor samplingInput() {
        return all.view(samplingOffset(), Shape.of(DeviceSampler.inputSize(logitRows, maskWords)));
    }

    /** How long the masks among these are. */
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
     * One sequence: its new tokens from a position on, where they go, its blocks, its adapter, and how many last rows have
     * logits.
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

    /** Fills what is left with rows of one token each that write to and read from the sink, and uploads all. */
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
