package dev.starforge.conformance;

import dev.starforge.model.Model;
import dev.starforge.model.generate.Engine;
import dev.starforge.model.generate.Engine.SequenceChunk;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.generate.Sampler;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.text.tokenizer.HealedPrompt;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;

/** Runs a golden model on a single sequence: whole prompts, sampling on the host. */
final class SingleSequenceRun implements AutoCloseable {
    private static final int BLOCKS = 16;

    private final Device device =
            Selection.choose("cpu").backend().open(new DeviceOptions(0, 1, Path.of("target", "kernels")));
    private final Scope weights = new Scope(device);
    private final Model model;
    private final Set<Integer> ends;

    SingleSequenceRun(String name) {
        try (ModelFiles files = ModelFiles.open(TinyModel.GOLDEN.resolve(name))) {
            model = files.load(weights, Precision.FLOAT32);
            ends = files.eosTokenIds();
        }
    }

    /** Tokens, and the logarithm of each one's probability before temperature and the rest. */
    record Generated(int[] ids, List<Double> logprobs) {}

    Generated say(int[] prompt, int most, SamplingParams sampling) {
        Sampler sampler = new Sampler(sampling, model.info().vocabSize(), prompt);
        List<Integer> ids = new ArrayList<>();
        List<Double> logprobs = new ArrayList<>();
        try (Engine engine = new Engine(model, device, Precision.FLOAT32, Fallback.FORBIDDEN, BLOCKS);
                Engine.Sequence sequence = engine.open(prompt)) {
            while (ids.size() < most) {
                engine.step(List.of(new SequenceChunk(sequence, sequence.pending(), 1)));
                float[] logits = device.floats(engine.logits());
                int next = sampler.next(logits);
                if (ends.contains(next)) {
                    break;
                }
                ids.add(next);
                logprobs.add(logprob(logits, next));
                sequence.append(next);
            }
        }
        return new Generated(ids.stream().mapToInt(Integer::intValue).toArray(), logprobs);
    }

    int[] greedy(int[] prompt, int most) {
        return say(prompt, most, SamplingParams.GREEDY).ids;
    }

    /** What is written after the tokens that are left of a prompt; a generator's masks are on the host. */
    String healed(Tokenizer tokenizer, String prompt, int most, SamplingParams sampling) {
        HealedPrompt healed = tokenizer.heal(tokenizer.encode(prompt, true));
        List<Integer> ids = new ArrayList<>();
        try (Generator generator =
                new Generator(model, device, Precision.FLOAT32, Fallback.FORBIDDEN, BLOCKS * Engine.BLOCK_SIZE)) {
            generator.generate(
                    healed.ids(),
                    healed::allowed,
                    new Sampler(sampling, model.info().vocabSize(), healed.ids()),
                    most,
                    id -> !ends.contains(id) && ids.add(id));
        }
        return tokenizer.decode(ids.stream().mapToInt(Integer::intValue).toArray(), true);
    }

    private static double logprob(float[] logits, int id) {
        double[] exponentials = new double[logits.length];
        Arrays.setAll(exponentials, i -> Math.exp(logits[i]));
        return logits[id] - Math.log(Arrays.stream(exponentials).sum());
    }

    @Override
    public void close() {
        weights.close();
        device.close();
    }
}
