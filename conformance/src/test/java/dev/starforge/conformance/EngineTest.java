package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.RowSampling;
import dev.starforge.model.generate.Engine.SequenceChunk;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.kv.BlockPool;
import dev.starforge.model.kv.OutOfBlocksException;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Decoding;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Results of a step do not depend on the other sequences, the blocks and the captured batch size, bit for bit. */
final class EngineTest {
    private static Engine engine(TinyModel tiny, int blocks) {
        return engine(tiny, blocks, Precision.FLOAT32);
    }

    private static Engine engine(TinyModel tiny, int blocks, Precision precision) {
        return new Engine(tiny.model, tiny.device, precision, Fallback.FORBIDDEN, blocks);
    }

    /** Token ids that differ between sequences. */
    private static int[] text(TinyModel tiny, int seed, int length) {
        int[] ids = new int[length];
        for (int i = 0; i < length; i++) {
            ids[i] = Math.floorMod(31 * seed + 17 * i + i * i, tiny.model.info().vocabSize());
        }
        return ids;
    }

    private static float[] row(TinyModel tiny, Engine engine, int row) {
        return tiny.rows(tiny.device.floats(engine.logits()), row, row + 1);
    }

    private static int best(float[] logits) {
        int best = 0;
        for (int id = 1; id < logits.length; id++) {
            best = logits[id] > logits[best] ? id : best;
        }
        return best;
    }

    /** The prompt and its greedy continuation, without other sequences. */
    private static int[] alone(TinyModel tiny, int[] prompt, int count, Precision precision) {
        int[] ids = Arrays.copyOf(prompt, prompt.length + count);
        try (Engine engine = engine(tiny, 8, precision);
                Engine.Sequence sequence = engine.open(prompt)) {
            for (int i = 0; i < count; i++) {
                engine.step(List.of(new SequenceChunk(sequence, sequence.pending(), 1)));
                ids[prompt.length + i] = best(row(tiny, engine, 0));
                sequence.append(ids[prompt.length + i]);
            }
        }
        return ids;
    }

    @ParameterizedTest
    @CsvSource({"starcoder2, F32", "llama3, F32", "qwen3_moe, F32", "deepseek_v2, F32", "starcoder2, BF16"})
    void singleRowMatchesSameRowInBatch(String name, DType type) {
        Precision precision = Precision.of(type);
        int others = name.equals("starcoder2") ? 63 : 7;
        try (TinyModel tiny = new TinyModel(name, "cpu", 0, precision);
                Engine engine = engine(tiny, 4 * (others + 1), precision)) {
            int[] prompt = text(tiny, 1, 13);
            int[] expected = alone(tiny, prompt, 5, precision);
            List<Engine.Sequence> all = new ArrayList<>();
            for (int i = 0; i < others; i++) {
                all.add(engine.open(text(tiny, 100 + i, 3 + i % 11)));
            }
            all.add(others / 2, engine.open(prompt));
            for (int i = 0; i < 5; i++) {
                engine.step(all.stream()
                        .map(s -> new SequenceChunk(s, s.pending(), 1))
                        .toList());
                for (int s = 0; s < all.size(); s++) {
                    all.get(s).append(best(row(tiny, engine, s)));
                }
                assertThat(best(row(tiny, engine, others / 2))).isEqualTo(expected[13 + i]);
            }
        }
    }

    /** A step captured with eight sequences runs with fewer; the other rows are padding. */
    @ParameterizedTest
    @ValueSource(strings = {"starcoder2", "mixtral"})
    void stepCapturedForEightRunsOneToEight(String name) {
        try (TinyModel tiny = new TinyModel(name, "cpu");
                Engine engine = engine(tiny, 40)) {
            int[][] expected = new int[8][];
            List<Engine.Sequence> all = new ArrayList<>();
            for (int s = 0; s < 8; s++) {
                expected[s] = alone(tiny, text(tiny, s, 4 + s), 10, Precision.FLOAT32);
                all.add(engine.open(text(tiny, s, 4 + s)));
            }
            for (int round = 0; !all.isEmpty(); round++) {
                engine.step(all.stream()
                        .map(s -> new SequenceChunk(s, s.pending(), 1))
                        .toList());
                for (int s = 0; s < all.size(); s++) {
                    int[] text = expected[expected.length - all.size() + s];
                    int chosen = best(row(tiny, engine, s));
                    assertThat(chosen).isEqualTo(text[all.get(s).length()]);
                    all.get(s).append(chosen);
                }
                if (round > 1) {
                    all.removeFirst().close();
                }
            }
        }
    }

    @Test
    void chunkedPrefillMatchesWholePrompt() {
        try (TinyModel tiny = new TinyModel("llama3", "cpu");
                Engine engine = engine(tiny, 16)) {
            int[] prompt = text(tiny, 3, 24);
            Engine.Sequence whole = engine.open(Engine.AdapterSlot.BASE, "a", prompt);
            engine.step(List.of(new SequenceChunk(whole, 24, 24)));
            float[] expected = tiny.device.floats(engine.logits());
            Engine.Sequence cut = engine.open(Engine.AdapterSlot.BASE, "b", prompt);
            Engine.Sequence other = engine.open(Engine.AdapterSlot.BASE, "c", text(tiny, 4, 9));
            int at = 0;
            for (int count : new int[] {7, 1, 10, 6}) {
                List<SequenceChunk> pieces = other.pending() == 0
                        ? List.of(new SequenceChunk(cut, count, count))
                        : List.of(new SequenceChunk(other, 3, 0), new SequenceChunk(cut, count, count));
                engine.step(pieces);
                assertThat(tiny.device.floats(engine.logits())).isEqualTo(tiny.rows(expected, at, at + count));
                at += count;
            }
        }
    }

    @Test
    void sharedPrefixIsNotRecomputed() {
        try (TinyModel tiny = new TinyModel("starcoder2", "cpu");
                Engine engine = engine(tiny, 16)) {
            int[] prompt = text(tiny, 5, 41);
            Engine.Sequence first = engine.open(prompt);
            engine.step(List.of(new SequenceChunk(first, 41, 1)));
            float[] expected = row(tiny, engine, 0);
            Engine.Sequence second = engine.open(prompt);
            assertThat(second.pending()).isEqualTo(41 - 2 * Engine.BLOCK_SIZE);
            engine.step(List.of(new SequenceChunk(second, second.pending(), 1)));
            assertThat(row(tiny, engine, 0)).isEqualTo(expected);
            assertThat(engine.open(new Engine.AdapterSlot(0, "adapter"), "", prompt)
                            .pending())
                    .isEqualTo(41);
            assertThat(engine.open(Engine.AdapterSlot.BASE, "tenant", prompt).pending())
                    .isEqualTo(41);
            assertThat(engine.blockPoolStats().hits()).isEqualTo(2 * Engine.BLOCK_SIZE);
        }
    }

    @Test
    void forkContinuesInCopyAndTruncatedSequenceDiverges() {
        try (TinyModel tiny = new TinyModel("starcoder2", "cpu");
                Engine engine = engine(tiny, 16)) {
            int[] prompt = text(tiny, 6, 21);
            Engine.Sequence one = engine.open(prompt);
            engine.step(List.of(new SequenceChunk(one, 21, 1)));
            Engine.Sequence two = one.fork();
            one.append(3, 1, 4);
            two.append(2, 7);
            engine.step(List.of(new SequenceChunk(one, 3, 3), new SequenceChunk(two, 2, 1)));
            float[][] rows = {row(tiny, engine, 2), row(tiny, engine, 3)};
            one.truncate(22);
            one.append(7);
            engine.step(List.of(new SequenceChunk(one, 1, 1)));
            float[] cut = row(tiny, engine, 0);
            assertThat(rows[0]).isEqualTo(after(tiny, prompt, 3, 1, 4));
            assertThat(rows[1]).isEqualTo(after(tiny, prompt, 2, 7));
            assertThat(cut).isEqualTo(after(tiny, prompt, 3, 7));
        }
    }

    private static float[] after(TinyModel tiny, int[] prompt, int... more) {
        try (Engine engine = engine(tiny, 8);
                Engine.Sequence sequence = engine.open(prompt)) {
            sequence.append(more);
            engine.step(List.of(new SequenceChunk(sequence, sequence.pending(), 1)));
            return row(tiny, engine, 0);
        }
    }

    @Test
    void reusedBlocksDoNotChangeResults() {
        try (TinyModel tiny = new TinyModel("starcoder2", "cpu");
                Engine engine = engine(tiny, 4)) {
            int[] expected = alone(tiny, text(tiny, 7, 20), 20, Precision.FLOAT32);
            for (int round = 0; round < 6; round++) {
                int[] prompt = text(tiny, round % 2 == 0 ? 7 : 50 + round, 20);
                try (Engine.Sequence sequence = engine.open(Engine.AdapterSlot.BASE, "tenant " + round, prompt)) {
                    for (int i = 0; i < 20; i++) {
                        engine.step(List.of(new SequenceChunk(sequence, sequence.pending(), 1)));
                        int chosen = best(row(tiny, engine, 0));
                        if (round % 2 == 0) {
                            assertThat(chosen).isEqualTo(expected[20 + i]);
                        }
                        sequence.append(chosen);
                    }
                }
            }
            assertThat(engine.blockPoolStats().evictions()).isPositive();
        }
    }

    @Test
    void stepThatDoesNotFitChangesNothing() {
        try (TinyModel tiny = new TinyModel("llama3", "cpu");
                Engine engine = engine(tiny, 3)) {
            Engine.Sequence small = engine.open(text(tiny, 8, 16));
            Engine.Sequence large = engine.open(text(tiny, 9, 40));
            BlockPool.BlockPoolStats before = engine.blockPoolStats();
            assertThatThrownBy(() ->
                            engine.step(List.of(new SequenceChunk(small, 16, 1), new SequenceChunk(large, 40, 1))))
                    .isInstanceOf(OutOfBlocksException.class)
                    .hasMessageContaining("3 more KV blocks needed, 2 free");
            assertThat(engine.blockPoolStats().free()).isEqualTo(before.free());
            assertThat(small.pending()).isEqualTo(16);
            engine.step(List.of(new SequenceChunk(small, 16, 1)));
            assertThat(row(tiny, engine, 0)).isEqualTo(after(tiny, text(tiny, 8, 16)));
        }
    }

    @Test
    void slidingWindowReleasesBlocks() {
        try (TinyModel tiny = new TinyModel("starcoder2", "cpu");
                Engine engine = engine(tiny, 12)) {
            int window = tiny.model.info().slidingWindow();
            Engine.Sequence sequence = engine.open(text(tiny, 10, 4 * window));
            engine.step(List.of(new SequenceChunk(sequence, sequence.pending(), 1)));
            assertThat(window).isBetween(1, 48);
            assertThat(engine.blockPoolStats().held()).isLessThanOrEqualTo(Math.ceilDiv(window, Engine.BLOCK_SIZE) + 1);
            sequence.append(5);
            engine.step(List.of(new SequenceChunk(sequence, 1, 1)));
            float[] ours = row(tiny, engine, 0);
            int[] whole = Arrays.copyOf(text(tiny, 10, 4 * window), 4 * window + 1);
            whole[4 * window] = 5;
            assertThat(ours).isEqualTo(tiny.rows(tiny.logits(whole), 4 * window, 4 * window + 1));
        }
    }

    /** Its block table is longer than the pool, because entries outside the window remain. */
    @Test
    void slidingWindowSequenceCanExceedPoolSize() {
        try (TinyModel tiny = new TinyModel("starcoder2", "cpu");
                Engine engine = engine(tiny, 6)) {
            int[] ids = text(tiny, 11, 9 * Engine.BLOCK_SIZE);
            Engine.Sequence sequence = engine.open(Arrays.copyOf(ids, 3));
            for (int i = 3; i < ids.length; i += 3) {
                engine.step(List.of(new SequenceChunk(sequence, 3, 1)));
                sequence.append(ids[i], ids[i + 1], ids[i + 2]);
            }
            engine.step(List.of(new SequenceChunk(sequence, 2, 0)));
            engine.step(List.of(new SequenceChunk(sequence, 1, 1)));
            assertThat(row(tiny, engine, 0)).isEqualTo(tiny.rows(tiny.logits(ids), ids.length - 1, ids.length));
        }
    }

    @Test
    void enginesOnOneDeviceHaveSeparateCaptures() {
        try (TinyModel tiny = new TinyModel("llama3", "cpu");
                Engine one = engine(tiny, 8)) {
            int[][] expected = {
                alone(tiny, text(tiny, 1, 5), 8, Precision.FLOAT32), alone(tiny, text(tiny, 2, 7), 8, Precision.FLOAT32)
            };
            Engine.Sequence first = one.open(text(tiny, 1, 5));
            try (Engine two = engine(tiny, 8)) {
                Engine.Sequence second = two.open(text(tiny, 2, 7));
                for (int i = 0; i < 5; i++) {
                    assertThat(next(tiny, one, first)).isEqualTo(expected[0][5 + i]);
                    assertThat(next(tiny, two, second)).isEqualTo(expected[1][7 + i]);
                }
            }
            for (int i = 5; i < 8; i++) {
                assertThat(next(tiny, one, first)).isEqualTo(expected[0][5 + i]);
            }
        }
    }

    private static int next(TinyModel tiny, Engine engine, Engine.Sequence sequence) {
        engine.step(List.of(new SequenceChunk(sequence, sequence.pending(), 1)));
        int chosen = best(row(tiny, engine, 0));
        sequence.append(chosen);
        return chosen;
    }

    @Test
    void rejectsInvalidSteps() {
        try (TinyModel tiny = new TinyModel("phi3-longrope", "cpu");
                Engine engine = engine(tiny, 12)) {
            Engine.Sequence small = engine.open(text(tiny, 1, 8));
            Engine.Sequence large = engine.open(text(tiny, 2, 40));
            assertThatThrownBy(
                            () -> engine.step(List.of(new SequenceChunk(small, 8, 1), new SequenceChunk(large, 40, 1))))
                    .isInstanceOf(TensorException.class)
                    .hasMessageContaining("different rope regimes");
            assertThatThrownBy(() -> engine.step(List.of(new SequenceChunk(small, 9, 1))))
                    .isInstanceOf(TensorException.class)
                    .hasMessageContaining("9 tokens with 1 rows of logits; the sequence has 8 pending tokens");
            assertThatThrownBy(
                            () -> engine.step(List.of(new SequenceChunk(small, 2, 1), new SequenceChunk(small, 1, 1))))
                    .isInstanceOf(TensorException.class)
                    .hasMessageContaining("two chunks");
            assertThatThrownBy(() -> small.append(1_000_000))
                    .isInstanceOf(TensorException.class)
                    .hasMessageContaining("outside the vocabulary");
        }
    }

    /** Any other computation would reuse the memory of the sampled tokens. */
    @Test
    void startedStepMustFinishFirst() {
        try (TinyModel tiny = new TinyModel("llama3", "cpu");
                Engine engine = engine(tiny, 8)) {
            RowSampling greedy = new RowSampling(SamplingParams.GREEDY, 0, Decoding.NO_HISTORY);
            Engine.Sequence one = engine.open(text(tiny, 1, 8));
            Engine.Sequence two = engine.open(text(tiny, 2, 8));
            List<SequenceChunk> other = List.of(new SequenceChunk(two, 8, 1));
            assertThatThrownBy(engine::finish)
                    .isInstanceOf(TensorException.class)
                    .hasMessageContaining("finish: expected a step in progress");
            engine.begin(List.of(new SequenceChunk(one, 8, 1)), List.of(greedy), 0);
            refusesUntilFinished("begin", () -> engine.begin(other, List.of(greedy), 0));
            refusesUntilFinished("begin", () -> engine.step(other, List.of(greedy), 0));
            refusesUntilFinished("step", () -> engine.step(other));
            refusesUntilFinished("hidden", () -> engine.hidden(other));
            assertThat(engine.finish().tokens())
                    .containsExactly(alone(tiny, text(tiny, 1, 8), 1, Precision.FLOAT32)[8]);
            assertThatThrownBy(engine::finish).isInstanceOf(TensorException.class);
            assertThat(engine.step(other, List.of(greedy), 0).tokens())
                    .containsExactly(alone(tiny, text(tiny, 2, 8), 1, Precision.FLOAT32)[8]);
        }
    }

    private static void refusesUntilFinished(String operation, ThrowingCallable body) {
        assertThatThrownBy(body)
                .isInstanceOf(TensorException.class)
                .hasMessageContaining(operation + ": the last step, with 1 sampled tokens, is not finished");
    }

    /** A step that does not fit does not count as started. */
    @Test
    void stepCanBeginAfterOneThatDidNotFit() {
        try (TinyModel tiny = new TinyModel("llama3", "cpu");
                Engine engine = engine(tiny, 1)) {
            RowSampling greedy = new RowSampling(SamplingParams.GREEDY, 0, Decoding.NO_HISTORY);
            Engine.Sequence large = engine.open(text(tiny, 1, 17));
            assertThatThrownBy(() -> engine.begin(List.of(new SequenceChunk(large, 17, 1)), List.of(greedy), 0))
                    .isInstanceOf(OutOfBlocksException.class);
            engine.begin(List.of(new SequenceChunk(large, 16, 1)), List.of(greedy), 0);
            assertThat(engine.finish().tokens())
                    .containsExactly(alone(tiny, text(tiny, 1, 16), 1, Precision.FLOAT32)[16]);
        }
    }
}
