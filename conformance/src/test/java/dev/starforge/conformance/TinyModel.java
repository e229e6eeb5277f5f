package dev.starforge.conformance;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.EagerOps;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.trainer.TrainerSettings;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** A golden model with its adapter, loaded on a device. */
final class TinyModel implements AutoCloseable {
    static final Path GOLDEN = Path.of("..", "golden", "models");

    final Device device;
    final Model model;
    final Map<String, Tensor> parameters;
    private final Precision precision;
    private final Path folder;
    private final Scope weights;

    TinyModel(String name, String backend, int threads, Precision precision) {
        this(name, backend, threads, precision, true);
    }

    private TinyModel(String name, String backend, int threads, Precision precision, boolean adapted) {
        this.precision = precision;
        folder = GOLDEN.resolve(name);
        device = Selection.choose(backend).backend().open(new DeviceOptions(0, threads, Path.of("target", "kernels")));
        weights = new Scope(device);
        try (ModelFiles files = ModelFiles.open(folder);
                LoraAdapter adapter = LoraAdapter.open(folder.resolve("adapter"), weights)) {
            model = adapted ? files.load(weights, precision, adapter) : files.load(weights, precision);
            parameters = adapter.parameters();
        }
    }

    /** The model without its adapter. */
    static TinyModel base(String name, String backend) {
        return new TinyModel(name, backend, 0, Precision.FLOAT32, false);
    }

    TinyModel(String name, String backend) {
        this(name, backend, 0, Precision.FLOAT32);
    }

    /** Logits [N, V] of whole sequences, packed, without a cache. */
    float[] logits(Fallback fallback, List<int[]> sequences) {
        try (Scope step = new Scope(device)) {
            EagerOps ops = device.ops(step, precision, fallback);
            return device.floats(model.forward(ops, Batches.packed(model, step, sequences), KvCache.NONE));
        }
    }

    float[] logits(int[]... sequences) {
        return logits(Fallback.QUIET, List.of(sequences));
    }

    Trainer trainer(Fallback fallback, Checkpointing checkpointing) {
        TrainerSettings settings = TrainerSettings.plain(0.9, 0.999, 1e-8, 0.01, 1, checkpointing);
        return new Trainer(model, parameters, device, precision, fallback, settings);
    }

    Trainer trainer(Checkpointing checkpointing) {
        return trainer(Fallback.QUIET, checkpointing);
    }

    /** The two golden sequences with their labels. */
    List<TrainingExample> examples() {
        try (SafetensorsFile expected = SafetensorsFile.open(folder.resolve("expected.safetensors"))) {
            int length = Math.toIntExact(expected.tensor("input_ids").shape().last());
            int[] ids = expected.ints("input_ids");
            int[] labels = expected.ints("labels");
            List<TrainingExample> examples = new ArrayList<>();
            for (int at = 0; at < ids.length; at += length) {
                examples.add(new TrainingExample(
                        Arrays.copyOfRange(ids, at, at + length), Arrays.copyOfRange(labels, at, at + length)));
            }
            return examples;
        }
    }

    int[] sequence(int index) {
        return examples().get(index).ids();
    }

    /** The rows from..to-1 of logits. */
    float[] rows(float[] logits, int from, int to) {
        int v = model.info().vocabSize();
        return Arrays.copyOfRange(logits, from * v, to * v);
    }

    @Override
    public void close() {
        weights.close();
        device.close();
    }
}
