package dev.starforge.conformance;

import dev.starforge.conformance.Case.Input;
import dev.starforge.conformance.Case.Source;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Spec;
import java.util.ArrayList;
import java.util.List;
import java.util.StringJoiner;

/**
 * The layout of a step: the new and the cached tokens of each sequence. As in a cache after an hour of serving, blocks are assigned in
 * shuffled order, a few are unused, and tables are one entry wider than necessary. Rows that no query may read hold large values, so
 * that reading one changes the result.
 */
final class RaggedBatch {
    private static final int SPARE_BLOCKS = 2;
    private static final double UNSEEN = 1000;

    private final int block;
    private final int[][] sequences; // {new, cached before}
    private final List<Integer> starts = new ArrayList<>();
    private final List<Integer> positions = new ArrayList<>();
    private final List<Integer> tables = new ArrayList<>();
    private final int width;
    private final int rows;
    private final boolean[] seen;

    private RaggedBatch(int block, int window, int[][] sequences) {
        this.block = block;
        this.sequences = sequences;
        int needed = 0;
        int widest = 0;
        for (int[] sequence : sequences) {
            needed += blocks(sequence);
            widest = Math.max(widest, blocks(sequence));
        }
        width = widest + 1;
        int count = needed + SPARE_BLOCKS;
        rows = count * block;
        seen = new boolean[rows];
        List<Integer> order = shuffled(count);
        starts.add(0);
        for (int[] sequence : sequences) {
            List<Integer> mine = List.copyOf(order.subList(0, blocks(sequence)));
            order.subList(0, mine.size()).clear();
            for (int entry = 0; entry < width; entry++) {
                tables.add(entry < mine.size() ? mine.get(entry) : 0);
            }
            for (int t = sequence[1]; t < sequence[0] + sequence[1]; t++) {
                positions.add(t);
                for (int p = window == 0 ? 0 : Math.max(0, t - window + 1); p <= t; p++) {
                    seen[mine.get(p / block) * block + p % block] = true;
                }
            }
            starts.add(positions.size());
        }
    }

    /** Sequences as {new tokens, tokens cached before them}. */
    static RaggedBatch of(int block, int window, int[]... sequences) {
        return new RaggedBatch(block, window, sequences);
    }

    private int blocks(int[] sequence) {
        return (sequence[0] + sequence[1] + block - 1) / block;
    }

    private static List<Integer> shuffled(int count) {
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            order.add((int) (Philox.uniform(count, 0, i) * (i + 1)), i);
        }
        return order;
    }

    int queries() {
        return positions.size();
    }

    /** Cache rows. */
    int rows() {
        return rows;
    }

    /** Keys per row of scores in the expansion: the whole tables of all sequences. */
    int keys() {
        return tables.size() * block;
    }

    /** Draws for a cache of {@code width} elements a row; rows no query sees get {@code unseen} times the value. */
    Case.Draw cache(int width, double unseen) {
        return (i, normal) -> seen[i / width] ? normal : unseen * normal;
    }

    Case.Draw cache(int width) {
        return cache(width, UNSEEN);
    }

    /** The three layout inputs of an operation: starts, positions, tables. */
    List<Input> layout() {
        return List.of(
                new Input(Spec.i32(starts.size()), new Source.Listed(starts), false),
                new Input(Spec.i32(positions.size()), new Source.Listed(positions), false),
                new Input(Spec.i32(sequences.length, width), new Source.Listed(tables), false));
    }

    /** {@code new tokens @ first position} for each sequence. */
    @Override
    public String toString() {
        StringJoiner all = new StringJoiner(" ", "sequences ", "");
        for (int[] sequence : sequences) {
            all.add(sequence[0] + "@" + sequence[1]);
        }
        return sequences.length == 0 ? "no sequence" : all.toString();
    }
}
