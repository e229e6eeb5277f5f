package dev.starforge.train.corpus;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;

/**
 * First-fit-decreasing bin packing: the longest window first, each into the first bin with enough space. A segment tree
 * of the free space finds that bin in logarithmic time.
 */
final class Packing {
    private Packing() {}

    /**
     * Packs lengths into bins of at most {@code capacity}; returns the indices in each bin. Equal lengths keep their
     * order.
     */
    static List<List<Integer>> pack(int[] lengths, int capacity) {
        Integer[] order = IntStream.range(0, lengths.length).boxed().toArray(Integer[]::new);
        Arrays.sort(order, Comparator.comparingInt(i -> -lengths[i]));
        int leaves = Math.max(1, Integer.highestOneBit(Math.max(1, 2 * lengths.length - 1)));
        int[] gaps = new int[2 * leaves];
        Arrays.fill(gaps, capacity);
        List<List<Integer>> bins = new ArrayList<>();
        for (int piece : order) {
            int node = 1;
            while (node < leaves) {
                node = gaps[2 * node] >= lengths[piece] ? 2 * node : 2 * node + 1;
            }
            int bin = node - leaves;
            while (bins.size() <= bin) {
                bins.add(new ArrayList<>());
            }
            bins.get(bin).add(piece);
            gaps[node] -= lengths[piece];
            for (node /= 2; node >= 1; node /= 2) {
                gaps[node] = Math.max(gaps[2 * node], gaps[2 * node + 1]);
            }
        }
        return bins;
    }
}
