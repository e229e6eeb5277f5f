package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.conformance.emulator.EmulatedBackend;
import dev.starforge.model.Model;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.RowSampling;
import dev.starforge.model.generate.Engine.SequenceChunk;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Op;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A decode step makes one upload, one graph replay and one read of the sampled tokens. */
final class DecodeStepTest {
    /** Counts the host's calls to a device. */
    private static final class CountingDevice extends ForwardingDevice {
        private int writes;
        private int reads;
        private int waits;
        private int operations;
        private int replays;

        CountingDevice(Device device) {
            super(device);
        }

        @Override
        public void write(Tensor to, ByteBuffer from) {
            writes++;
            super.write(to, from);
        }

        @Override
        public void read(Tensor from, ByteBuffer to) {
            reads++;
            super.read(from, to);
        }

        @Override
        public void synchronize() {
            waits++;
            super.synchronize();
        }

        @Override
        public void run(Op op, Tensor[] in, Tensor[] out) {
            operations++;
            super.run(op, in, out);
        }

        @Override
        public void replay(Object key, Runnable step) {
            replays++;
            super.replay(key, step);
        }
    }

    private static final SamplingParams SAMPLING = new SamplingParams(0.8, 20, 1, 0, 1, 1, 0, 0, 7);

    private static List<SequenceChunk> pieces(List<Engine.Sequence> sequences) {
        return sequences.stream().map(s -> new SequenceChunk(s, s.pending(), 1)).toList();
    }

    private static List<RowSampling> choices(List<Engine.Sequence> sequences) {
        return sequences.stream()
                .map(s -> new RowSampling(SAMPLING, s.length(), Decoding.NO_HISTORY))
                .toList();
    }

    @Test
    void usesOneUploadOneReplayAndOneRead() {
        try (TinyModel tiny = new TinyModel("llama3", "cpu")) {
            CountingDevice device = new CountingDevice(tiny.device);
            try (Engine engine = new Engine(tiny.model, device, Precision.FLOAT32, Fallback.FORBIDDEN, 16)) {
                List<Engine.Sequence> all = new ArrayList<>();
                for (int s = 0; s < 3; s++) {
                    all.add(engine.open(5 + s, 6, 7));
                }
                for (int step = 0; step < 8; step++) {
                    device.writes = 0;
                    device.reads = 0;
                    device.waits = 0;
                    device.operations = 0;
                    device.replays = 0;
                    engine.begin(pieces(all), choices(all), 2);
                    assertThat(device.reads).as("reads before its end").isZero();
                    Engine.SampledTokens chosen = engine.finish();
                    assertThat(List.of(device.writes, device.reads, device.waits))
                            .as("uploads, reads and waits of step " + step)
                            .containsExactly(1, 1, 0);
                    if (step > 0) { // the prompts are no step of single tokens
                        assertThat(device.replays).isEqualTo(1);
                    }
                    if (step > 2) { // the first such step runs, the second is recorded
                        assertThat(device.operations)
                                .as("operations from the host")
                                .isZero();
                    }
                    for (int s = 0; s < all.size(); s++) {
                        all.get(s).append(chosen.tokens()[s]);
                    }
                }
            }
        }
    }

    /** The blocks of a sequence that leaves during a step can belong to another sequence in the next step. */
    @Test
    void sequenceCanLeaveDuringItsStep() {
        try (TinyModel tiny = new TinyModel("llama3", "cpu");
                Engine engine = new Engine(tiny.model, tiny.device, Precision.FLOAT32, Fallback.FORBIDDEN, 3);
                Engine alone = new Engine(tiny.model, tiny.device, Precision.FLOAT32, Fallback.FORBIDDEN, 3)) {
            List<Engine.Sequence> both = List.of(engine.open(5, 6, 7), engine.open(9, 8));
            engine.begin(pieces(both), choices(both), 0);
            both.getFirst().close();
            List<Engine.Sequence> next = List.of(engine.open(new int[2 * Engine.BLOCK_SIZE]));
            int staying = engine.finish().tokens()[1];
            List<Engine.Sequence> stays = List.of(alone.open(9, 8));
            assertThat(staying)
                    .isEqualTo(alone.step(pieces(stays), choices(stays), 0).tokens()[0]);
            engine.begin(pieces(next), choices(next), 0);
            next.getFirst().close();
            both.getLast().append(staying);
            stays.getFirst().append(staying);
            engine.finish();
            assertThat(engine.step(pieces(both.subList(1, 2)), choices(both.subList(1, 2)), 0)
                            .tokens())
                    .isEqualTo(alone.step(pieces(stays), choices(stays), 0).tokens());
        }
    }

    /** A step samples the same tokens as the host's sampler from the same logits. */
    @Test
    void samplesSameTokensAsHost() {
        try (TinyModel tiny = new TinyModel("starcoder2", "cpu");
                Engine chooses = new Engine(tiny.model, tiny.device, Precision.FLOAT32, Fallback.FORBIDDEN, 16);
                Engine tells = new Engine(tiny.model, tiny.device, Precision.FLOAT32, Fallback.FORBIDDEN, 16)) {
            List<Engine.Sequence> ours = List.of(chooses.open(5, 6, 7), chooses.open(9, 8), chooses.open(1));
            List<Engine.Sequence> theirs = List.of(tells.open(5, 6, 7), tells.open(9, 8), tells.open(1));
            for (int step = 0; step < 5; step++) {
                List<RowSampling> greedy = ours.stream()
                        .map(s -> new RowSampling(SamplingParams.GREEDY, s.length(), Decoding.NO_HISTORY))
                        .toList();
                Engine.SampledTokens chosen = chooses.step(pieces(ours), greedy, 3);
                tells.step(pieces(theirs));
                float[] logits = tiny.device.floats(tells.logits());
                for (int s = 0; s < 3; s++) {
                    float[] row = tiny.rows(logits, s, s + 1);
                    int best = 0;
                    for (int id = 1; id < row.length; id++) {
                        best = row[id] > row[best] ? id : best;
                    }
                    assertThat(chosen.tokens()[s]).isEqualTo(best);
                    assertThat(chosen.topIds()[3 * s]).isEqualTo(best);
                    assertThat(chosen.topLogprobs()[3 * s]).isEqualTo(chosen.logprobs()[s]);
                    assertThat(chosen.topLogprobs()[3 * s + 1]).isLessThanOrEqualTo(chosen.logprobs()[s]);
                    ours.get(s).append(best);
                    theirs.get(s).append(best);
                }
            }
            assertThatThrownBy(chooses::logits)
                    .isInstanceOf(TensorException.class)
                    .hasMessageContaining("sampled and kept no logits");
            assertThatThrownBy(() -> chooses.step(pieces(ours), List.of(), 0))
                    .isInstanceOf(TensorException.class)
                    .hasMessageContaining("got 0 for 3 rows");
        }
    }

    /** On the kernels of a GPU: a step for four sequences serves three, two for two and one for one, with the tokens each has alone. */
    @Test
    void batchedStepsMatchSeparateSequencesOnGpuKernels() {
        try (Device device = new EmulatedBackend().open(new DeviceOptions(0, 0, Path.of("target", "kernels")));
                Scope weights = new Scope(device);
                ModelFiles files = ModelFiles.open(TinyModel.GOLDEN.resolve("llama3"))) {
            Model model = files.load(weights, Precision.FLOAT32);
            List<int[]> prompts = List.of(new int[] {5, 6, 7}, new int[] {9, 8}, new int[] {1});
            List<List<Integer>> shared = texts(model, device, prompts);
            for (int s = 0; s < prompts.size(); s++) {
                List<Integer> alone =
                        texts(model, device, List.of(prompts.get(s))).getFirst();
                assertThat(alone).startsWith(shared.get(s).toArray(Integer[]::new));
            }
        }
    }

    /** Greedy tokens of a batch; one sequence leaves after three steps, and then one after each step. */
    private static List<List<Integer>> texts(Model model, Device device, List<int[]> prompts) {
        List<List<Integer>> texts = new ArrayList<>();
        try (Engine engine = new Engine(model, device, Precision.FLOAT32, Fallback.FORBIDDEN, 4)) {
            List<Engine.Sequence> running = new ArrayList<>();
            for (int[] prompt : prompts) {
                running.add(engine.open(prompt));
                texts.add(new ArrayList<>());
            }
            for (int step = 0; step < 5 && !running.isEmpty(); step++) {
                List<RowSampling> greedy = running.stream()
                        .map(s -> new RowSampling(SamplingParams.GREEDY, s.length(), Decoding.NO_HISTORY))
                        .toList();
                int[] tokens = engine.step(pieces(running), greedy, 0).tokens();
                int gone = texts.size() - running.size();
                for (int s = 0; s < tokens.length; s++) {
                    running.get(s).append(tokens[s]);
                    texts.get(gone + s).add(tokens[s]);
                }
                if (step > 1 && running.size() > 1) {
                    running.removeFirst().close();
                }
            }
        }
        return texts;
    }
}
