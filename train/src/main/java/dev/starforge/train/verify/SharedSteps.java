package dev.starforge.train.verify;

import dev.starforge.model.Model;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.RowSampling;
import dev.starforge.model.generate.Engine.SequenceChunk;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Decoding;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Checks that one to eight sequences decoded in captured steps get the same tokens as each sequence alone. Sequences
 * finish one after another, so a step captured for eight also serves fewer. Tokens are sampled on the device. In
 * float32, prompts share a step as well. In 16 bits they do not, since a GPU matmul with more rows than a captured step
 * may sum in another order.
 */
final class SharedSteps {
    private static final int SEQUENCES = 8;

    /** Steps with all sequences: prompts, one that runs eagerly, one that is captured. */
    private static final int TOGETHER = 3;

    private final Engine engine;
    private final boolean promptsTogether;

    private SharedSteps(Engine engine, boolean promptsTogether) {
        this.engine = engine;
        this.promptsTogether = promptsTogether;
    }

    static boolean identical(Model model, Device device, Precision precision, Fallback fallback, int[] ids) {
        List<int[]> prompts = new ArrayList<>();
        for (int s = 0; s < SEQUENCES; s++) {
            prompts.add(Arrays.copyOfRange(ids, s % 3, s % 3 + 2 + s / 3));
        }
        try (Engine engine = new Engine(model, device, precision, fallback, 2 * SEQUENCES)) {
            SharedSteps steps = new SharedSteps(engine, precision.compute() == DType.F32);
            List<int[]> shared = steps.continuePrompts(prompts, TOGETHER + SEQUENCES - 1, "shared");
            for (int s = 0; s < SEQUENCES; s++) {
                int[] sequence = shared.get(s);
                List<int[]> prompt = List.of(prompts.get(s));
                int count = sequence.length - prompt.getFirst().length;
                if (!Arrays.equals(
                        sequence,
                        steps.continuePrompts(prompt, count, "alone " + s).getFirst())) {
                    return false;
                }
            }
            return true;
        }
    }

    /** Continues the prompts in one batch for {@code count} steps; the first sequence leaves first. */
    private List<int[]> continuePrompts(List<int[]> prompts, int count, String salt) {
        List<int[]> sequences = new ArrayList<>(prompts);
        List<Engine.Sequence> all = new ArrayList<>();
        prompts.forEach(prompt -> all.add(engine.open(Engine.AdapterSlot.BASE, salt, prompt)));
        int first = 0; // first sequence that is not finished
        for (int round = 0; round < count; round++) {
            List<Engine.Sequence> running = all.subList(first, all.size());
            int[] tokens = round > 0 || promptsTogether
                    ? step(running)
                    : running.stream().mapToInt(each -> step(List.of(each))[0]).toArray();
            for (int i = 0; i < tokens.length; i++) {
                running.get(i).append(tokens[i]);
                int[] sequence = sequences.get(first + i);
                sequences.set(first + i, Arrays.copyOf(sequence, sequence.length + 1));
                sequences.get(first + i)[sequence.length] = tokens[i];
            }
            if (round + 1 >= TOGETHER && first + 1 < all.size()) {
                all.get(first++).close();
            }
        }
        all.subList(first, all.size()).forEach(Engine.Sequence::close);
        return sequences;
    }

    private int[] step(List<Engine.Sequence> running) {
        List<SequenceChunk> pieces =
                running.stream().map(s -> new SequenceChunk(s, s.pending(), 1)).toList();
        List<RowSampling> greedy = running.stream()
                .map(s -> new RowSampling(SamplingParams.GREEDY, s.length(), Decoding.NO_HISTORY))
                .toList();
        return engine.step(pieces, greedy, 0).tokens();
    }
}
