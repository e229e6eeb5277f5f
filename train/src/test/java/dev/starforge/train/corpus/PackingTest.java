package dev.starforge.train.corpus;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.Philox;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

final class PackingTest {
    @Test
    void isFirstFitDecreasing() {
        for (int trial = 0; trial < 50; trial++) {
            int seed = trial;
            int[] lengths = IntStream.range(0, 1 + trial * 7)
                    .map(i -> 1 + (int) (Philox.uniform(seed, 0, i) * 100))
                    .toArray();
            assertThat(Packing.pack(lengths, 100)).isEqualTo(slowly(lengths, 100));
        }
        assertThat(Packing.pack(new int[0], 10)).isEmpty();
    }

    private static List<List<Integer>> slowly(int[] lengths, int capacity) {
        List<List<Integer>> bins = new ArrayList<>();
        List<Integer> order = IntStream.range(0, lengths.length)
                .boxed()
                .sorted(Comparator.comparingInt(i -> -lengths[i]))
                .toList();
        for (int piece : order) {
            List<Integer> into = null;
            for (List<Integer> bin : bins) {
                int filled = bin.stream().mapToInt(i -> lengths[i]).sum();
                if (into == null && filled + lengths[piece] <= capacity) {
                    into = bin;
                }
            }
            if (into == null) {
                into = new ArrayList<>();
                bins.add(into);
            }
            into.add(piece);
        }
        return bins;
    }
}
