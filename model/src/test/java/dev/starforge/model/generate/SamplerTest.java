package dev.starforge.model.generate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.tensor.TensorException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Map;
import java.util.Random;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The chain against HF's own numbers, against HF's algorithm written down with full sorts, and in its corners. */
final class SamplerTest {
    private static final int[] NONE = {};

    private static final Map<String, SamplingParams> GOLDEN = Map.of(
            "temperature_0.7", SamplingParams.PLAIN.withTemperature(0.7),
            "top_k_20", SamplingParams.PLAIN.withTopK(20),
            "top_p_0.9", SamplingParams.PLAIN.withTopP(0.9),
            "min_p_0.1", SamplingParams.PLAIN.withMinP(0.1),
            "typical_0.8", SamplingParams.PLAIN.withTypicalP(0.8),
            "repetition_1.3", SamplingParams.PLAIN.withRepetitionPenalty(1.3),
            "chain_rep_temp_topk_topp",
                    SamplingParams.PLAIN
                            .withRepetitionPenalty(1.3)
                            .withTemperature(0.7)
                            .withTopK(20)
                            .withTopP(0.9));

    static Stream<String> goldenNames() {
        return GOLDEN.keySet().stream().sorted();
    }

    @ParameterizedTest
    @MethodSource("goldenNames")
    void agreesWithHf(String name) {
        try (SafetensorsFile file = SafetensorsFile.open(Path.of("..", "golden", "sampling.safetensors"))) {
            float[] logits = file.floats("logits");
            int[] history = file.ints("history");
            float[] expected = file.floats("probs_" + name);
            int vocabulary = (int) file.tensor("logits").shape().dim(1);
            int length = (int) file.tensor("history").shape().dim(1);
            for (int row = 0; row < logits.length / vocabulary; row++) {
                float[] wanted = row(expected, row, vocabulary);
                int[] before = Arrays.copyOfRange(history, row * length, (row + 1) * length);
                float[] ours = Sampler.distribution(GOLDEN.get(name), row(logits, row, vocabulary), before, NONE);
                assertThat(ours).containsExactly(wanted, within(1e-6f));
                for (int id = 0; id < vocabulary; id++) {
                    assertThat(ours[id] == 0)
                            .as("row %d, token %d ruled out", row, id)
                            .isEqualTo(wanted[id] == 0);
                }
            }
        }
    }

    private static float[] row(float[] values, int row, int width) {
        return Arrays.copyOfRange(values, row * width, (row + 1) * width);
    }

    /** Coarse logits have ties everywhere, at every border too. */
    @Test
    void agreesWithANaiveImplementation() {
        Random random = new Random(1);
        for (int round = 0; round < 3000; round++) {
            int vocabulary = 1 + random.nextInt(40);
            float[] logits = new float[vocabulary];
            for (int id = 0; id < vocabulary; id++) {
                logits[id] = random.nextInt(8) == 0
                        ? Float.NEGATIVE_INFINITY
                        : random.nextBoolean() ? random.nextInt(-3, 4) : (float) random.nextGaussian();
            }
            logits[random.nextInt(vocabulary)] = 1;
            SamplingParams sampling = new SamplingParams(
                    random.nextBoolean() ? 1 : 0.1 + 1.9 * random.nextDouble(),
                    random.nextInt(2) * random.nextInt(45),
                    random.nextBoolean() ? 1 : 0.05 + 0.95 * random.nextDouble(),
                    random.nextBoolean() ? 0 : 0.9 * random.nextDouble(),
                    random.nextBoolean() ? 1 : 0.05 + 0.95 * random.nextDouble(),
                    random.nextBoolean() ? 1 : 0.5 + random.nextDouble(),
                    random.nextBoolean() ? 0 : 4 * random.nextDouble() - 2,
                    random.nextBoolean() ? 0 : 4 * random.nextDouble() - 2,
                    0);
            int[] prompt = random.ints(random.nextInt(5), 0, vocabulary).toArray();
            int[] generated = random.ints(random.nextInt(5), 0, vocabulary).toArray();
            assertThat(Sampler.distribution(sampling, logits, prompt, generated))
                    .as("%s of %s", sampling, Arrays.toString(logits))
                    .containsExactly(plainly(sampling, logits, prompt, generated), within(1e-6f));
        }
    }

    private static float[] plainly(SamplingParams sampling, float[] logits, int[] prompt, int[] generated) {
        double[] x = new double[logits.length];
        for (int id = 0; id < x.length; id++) {
            int token = id;
            x[id] = logits[id];
            long uses = IntStream.of(generated).filter(i -> i == token).count();
            if (uses > 0 || IntStream.of(prompt).anyMatch(i -> i == token)) {
                x[id] = x[id] < 0 ? x[id] * sampling.repetitionPenalty() : x[id] / sampling.repetitionPenalty();
            }
            x[id] -= (uses > 0 ? sampling.presencePenalty() : 0) + uses * sampling.frequencyPenalty();
            x[id] = (float) x[id] / sampling.temperature();
        }
        if (sampling.topK() > 0) {
            double[] sorted = x.clone();
            Arrays.sort(sorted);
            double least = sorted[x.length - Math.min(sampling.topK(), x.length)];
            drop(x, id -> x[id] < least);
        }
        if (sampling.topP() < 1) {
            double[] p = softmax(x);
            double sum = 0;
            Integer[] order = sorted(x.length, Comparator.comparingDouble(id -> x[id]));
            for (int i = 0; i < order.length - 1; i++) {
                sum += p[order[i]];
                if ((float) sum <= (float) (1 - sampling.topP())) {
                    x[order[i]] = Double.NEGATIVE_INFINITY;
                }
            }
        }
        double[] p = softmax(x);
        double most = Arrays.stream(p).max().orElseThrow();
        drop(x, id -> (float) (p[id] / most) < (float) sampling.minP());
        if (sampling.typicalP() < 1) {
            double[] q = softmax(x);
            double entropy = Arrays.stream(q)
                    .filter(v -> v > 0)
                    .map(v -> -v * Math.log(v))
                    .sum();
            double[] odd = Arrays.stream(q)
                    .map(v -> (float) Math.abs(-Math.log(v) - entropy))
                    .toArray();
            Integer[] order = sorted(x.length, Comparator.comparingDouble(id -> odd[id]));
            int last = 0;
            for (double sum = q[order[0]]; (float) sum < (float) sampling.typicalP() && last < x.length - 1; ) {
                sum += q[order[++last]];
            }
            double border = odd[order[last]] + 1e-6; // equal ones may differ by rounding
            drop(x, id -> odd[id] > border);
        }
        double[] result = softmax(x);
        float[] floats = new float[x.length];
        for (int id = 0; id < x.length; id++) {
            floats[id] = (float) result[id];
        }
        return floats;
    }

    private static void drop(double[] x, IntPredicate which) {
        int[] ids = IntStream.range(0, x.length).filter(which).toArray();
        for (int id : ids) {
            x[id] = Double.NEGATIVE_INFINITY;
        }
    }

    private static Integer[] sorted(int length, Comparator<Integer> by) {
        return IntStream.range(0, length).boxed().sorted(by).toArray(Integer[]::new);
    }

    private static double[] softmax(double[] x) {
        double most = Arrays.stream(x).max().orElseThrow();
        double[] e = Arrays.stream(x).map(v -> Math.exp(v - most)).toArray();
        double total = Arrays.stream(e).sum();
        return Arrays.stream(e).map(v -> v / total).toArray();
    }

    @Test
    void presenceAndFrequencyPenaltiesCountGeneratedTokensOnly() {
        float[] logits = {0, 0, 0, 0};
        SamplingParams sampling = SamplingParams.PLAIN.withPresencePenalty(0.5).withFrequencyPenalty(0.25);
        float[] p = Sampler.distribution(sampling, logits, new int[] {0, 0, 0}, new int[] {1, 2, 2});
        assertThat(p[0]).isEqualTo(p[3]);
        assertThat(Math.log(p[3] / p[1])).isCloseTo(0.75, within(1e-6));
        assertThat(Math.log(p[3] / p[2])).isCloseTo(1.0, within(1e-6));
    }

    @Test
    void sampledTokensCountForTheNextPenalties() {
        Sampler sampler = new Sampler(SamplingParams.GREEDY.withPresencePenalty(2), 3, 0);
        float[] logits = {3, 2.5f, 2};
        assertThat(IntStream.range(0, 4).map(i -> sampler.next(logits))).containsExactly(0, 1, 2, 0);
    }

    @Test
    void greedyTakesTheLowestOfEquals() {
        float[] logits = {1, 5, 5, 2};
        assertThat(new Sampler(SamplingParams.GREEDY, 4).next(logits)).isEqualTo(1);
        assertThat(Sampler.distribution(SamplingParams.GREEDY, logits, NONE, NONE))
                .containsExactly(0, 1, 0, 0);
    }

    @Test
    void aTinyTemperatureIsGreedyAndDoesNotOverflow() {
        float[] logits = {-3e38f, 3e38f, 2e38f};
        assertThat(Sampler.distribution(SamplingParams.PLAIN.withTemperature(1e-300), logits, NONE, NONE))
                .containsExactly(0, 1, 0);
    }

    @Test
    void equalTokensAtTheBorderOfTopPFallAsInHf() {
        float[] logits = new float[10];
        float[] p = Sampler.distribution(SamplingParams.PLAIN.withTopP(0.9), logits, NONE, NONE);
        assertThat(p[0]).isZero();
        assertThat(Arrays.copyOfRange(p, 1, 10)).containsOnly(1 / 9f);
    }

    @Test
    void topPSmallerThanAnyTokenKeepsTheLikeliest() {
        assertThat(Sampler.distribution(SamplingParams.PLAIN.withTopP(1e-9), new float[] {1, 2, 1.5f}, NONE, NONE))
                .containsExactly(0, 1, 0);
    }

    @Test
    void drawsFollowTheDistribution() {
        float[] logits = {0, (float) Math.log(2), (float) Math.log(5), Float.NEGATIVE_INFINITY};
        Sampler sampler = new Sampler(SamplingParams.PLAIN.withSeed(11), 4);
        int[] counts = new int[4];
        int draws = 80_000;
        for (int i = 0; i < draws; i++) {
            counts[sampler.next(logits)]++;
        }
        // three standard deviations of the widest, a share of 5/8
        double margin = 3 * Math.sqrt(draws * 5 / 8.0 * 3 / 8.0);
        assertThat((double) counts[0]).isCloseTo(draws / 8.0, within(margin));
        assertThat((double) counts[1]).isCloseTo(draws * 2 / 8.0, within(margin));
        assertThat((double) counts[2]).isCloseTo(draws * 5 / 8.0, within(margin));
        assertThat(counts[3]).isZero();
    }

    @Test
    void theSeedDeterminesTheTokens() {
        Random random = new Random(3);
        float[] logits = new float[500];
        for (int id = 0; id < logits.length; id++) {
            logits[id] = (float) random.nextGaussian();
        }
        SamplingParams sampling = SamplingParams.PLAIN.withTopP(0.95).withFrequencyPenalty(0.3);
        assertThat(text(sampling.withSeed(5), logits)).isEqualTo(text(sampling.withSeed(5), logits));
        assertThat(text(sampling.withSeed(5), logits)).isNotEqualTo(text(sampling.withSeed(6), logits));
        assertThat(text(sampling.withSeed(5), logits)).isNotEqualTo(text(sampling.withSeed(5L << 32), logits));
    }

    private static int[] text(SamplingParams sampling, float[] logits) {
        Sampler sampler = new Sampler(sampling, logits.length);
        return IntStream.range(0, 50).map(i -> sampler.next(logits)).toArray();
    }

    @Test
    void logprobsDoNotChangeTheNextToken() {
        float[] logits = {1, 2, 3, 2, 1};
        SamplingParams sampling = SamplingParams.PLAIN.withRepetitionPenalty(2);
        Sampler watched = new Sampler(sampling, 5, 1);
        Sampler alone = new Sampler(sampling, 5, 1);
        for (int i = 0; i < 20; i++) {
            assertThat(watched.probabilities(logits)).isEqualTo(watched.probabilities(logits));
            assertThat(watched.next(logits)).isEqualTo(alone.next(logits));
        }
    }

    @Test
    void brokenLogitsAreRefused() {
        Sampler sampler = new Sampler(SamplingParams.PLAIN, 3);
        float bad = Float.NEGATIVE_INFINITY;
        assertThatThrownBy(() -> sampler.next(new float[] {0, Float.NaN, 0}))
                .isInstanceOf(TensorException.class)
                .hasMessage("sampling: the score of token 1 is NaN");
        assertThatThrownBy(() -> sampler.next(new float[] {0, 0, Float.POSITIVE_INFINITY}))
                .hasMessage("sampling: the score of token 2 is Infinity");
        assertThatThrownBy(() -> sampler.next(new float[] {bad, bad, bad}))
                .hasMessage("sampling: all 3 logits are -Infinity");
        assertThatThrownBy(() -> sampler.next(new float[4])).hasMessageContaining("logits of 3 tokens, got 4");
        assertThatThrownBy(() -> new Sampler(SamplingParams.PLAIN, 3, 3))
                .hasMessageContaining("token 3 is outside the vocabulary of 3");
    }

    /** The best of many runs, so that only a slow algorithm fails and not a busy machine; it takes 0.2 ms. */
    @Test
    void topKOfALargeVocabularyTakesLessThanAMillisecond() {
        Random random = new Random(4);
        float[] logits = new float[128_256];
        for (int id = 0; id < logits.length; id++) {
            logits[id] = (float) random.nextGaussian();
        }
        Sampler sampler = new Sampler(SamplingParams.PLAIN.withTopK(50).withTopP(0.9), logits.length);
        long best = Long.MAX_VALUE;
        for (int i = 0; i < 500; i++) {
            long start = System.nanoTime();
            sampler.next(logits);
            best = Math.min(best, System.nanoTime() - start);
        }
        assertThat(best).isLessThan(1_000_000);
    }
}
