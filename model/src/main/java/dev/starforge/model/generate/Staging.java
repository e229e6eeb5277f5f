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
final class Staging {
    private final Tensor all;
    private final Batch batch;
    private final int[] numbers;
    private final int tokens;
    private final int sequences;
    private final int width;
    private final int wanted;
    private final int words;
    private int filledTokens;
    private int filledSequences;
    private int filledRows;

    /**
     * So many tokens of so many sequences whose tables have {@code width} blocks, and so many rows of logits.
     *
     * @param words of a mask of tokens to choose from, for each of these rows; 0 is none
     */
    Staging(Scope scope, int tokens, int sequences, int width, int blockSize, int wanted, int regime, int words) {
        this.tokens = tokens;
        this.sequences = sequences;
        this.width = width;
        this.wanted = wanted;
        this.words = words;
        numbers = new int[choices() + DeviceSampler.numbers(wanted, words)];
        all = scope.allocate(Spec.i32(numbers.length));
        batch = new Batch(
                all.view(0, Shape.of(tokens)),
                all.view(tokens, Shape.of(tokens)),
                all.view(starts(), Shape.of(sequences + 1L)),
                all.view(2L * tokens, Shape.of(tokens)),
                all.view(tables(), Shape.of(sequences, width)),
                blockSize,
                all.view(rows(), Shape.of(wanted)),
                all.view(adapters(), Shape.of(sequences)),
                all.view(3L * tokens, Shape.of(tokens)),
                regime);
    }

    private int starts() {
        return 4 * tokens;
    }

    private int tables() {
        return starts() + sequences + 1;
    }

    private int adapters() {
        return tables() + sequences * width;
    }

    private int rows() {
        return adapters() + sequences;
    }

    private int choices() {
        return rows() + wanted;
    }

    Batch batch() {
        return batch;
    }

    /** How to choose after each row that has logits. */
    Tensor choiceNumbers() {
        return all.view(choices(), Shape.of(DeviceSampler.numbers(wanted, words)));
    }

    /** How long the masks among these are. */
    int words() {
        return words;
    }

    void choose(List<Engine.Choice> choices) {
        DeviceSampler.fill(numbers, choices(), wanted, words, choices);
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
    void add(int[] ids, int position, int[] slots, int[] table, int adapter, int last) {
        for (int i = 0; i < ids.length; i++) {
            numbers[filledTokens + i] = ids[i];
            numbers[tokens + filledTokens + i] = position + i;
            numbers[2 * tokens + filledTokens + i] = slots[i];
            numbers[3 * tokens + filledTokens + i] = adapter;
        }
        numbers[adapters() + filledSequences] = adapter;
        System.arraycopy(table, 0, numbers, tables() + filledSequences * width, table.length);
        filledTokens += ids.length;
        for (int i = 0; i < last; i++) {
            numbers[rows() + filledRows++] = filledTokens - last + i;
        }
        numbers[starts() + ++filledSequences] = filledTokens;
    }

    /** Fills what is left with rows of one token each that write to and read from the sink, and uploads all. */
    void upload(Device device, int sink) {
        for (; filledSequences < sequences; filledSequences++) {
            numbers[filledTokens] = 0;
            numbers[tokens + filledTokens] = 0;
            numbers[2 * tokens + filledTokens] = sink * batch.block();
            numbers[3 * tokens + filledTokens] = Batch.BASE;
            numbers[adapters() + filledSequences] = Batch.BASE;
            int table = tables() + filledSequences * width;
            Arrays.fill(numbers, table, table + width, sink);
            numbers[rows() + filledRows++] = filledTokens++;
            numbers[starts() + filledSequences + 1] = filledTokens;
        }
        device.write(all, numbers);
    }
}
