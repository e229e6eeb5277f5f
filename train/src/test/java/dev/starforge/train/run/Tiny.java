package dev.starforge.train.run;

import dev.starforge.model.Model;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.model.lora.LoraConfig;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.trainer.TrainerSettings;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A golden model with a new adapter, and examples of different lengths with some tokens that do not count. */
public record Tiny(Device device, ModelFiles files, Scope scope, LoraAdapter adapter, Model model)
        implements AutoCloseable {
    public static final Path GOLDEN = Path.of("..", "golden", "models");
    public static final Path STARCODER = GOLDEN.resolve("starcoder2");

    public static Device cpu(int threads) {
        return Selection.choose("cpu").backend().open(new DeviceOptions(0, threads, Path.of("unused")));
    }

    public static LoraConfig lora(boolean dora) {
        return new LoraConfig(4, 8, 0, LoraConfig.automatic("starcoder2"), true, false, dora);
    }

    public static Tiny open(int threads, boolean dora) {
        return open(STARCODER, threads, lora(dora));
    }

    public static Tiny open(Path folder, int threads, LoraConfig lora) {
        Device device = cpu(threads);
        ModelFiles files = ModelFiles.open(folder);
        Scope scope = new Scope(device);
        LoraAdapter adapter = LoraAdapter.create(lora, 7, scope);
        return new Tiny(device, files, scope, adapter, files.load(scope, Precision.FLOAT32, adapter));
    }

    public static TrainerSettings settings(Checkpointing checkpointing, double dropout, double neftune) {
        return new TrainerSettings(false, false, 0.9, 0.999, 1e-8, 0.01, 1, checkpointing, dropout, neftune, 3);
    }

    public Trainer trainer(TrainerSettings settings) {
        return new Trainer(model, adapter.parameters(), device, Precision.FLOAT32, Fallback.FORBIDDEN, settings);
    }

    /** Of the lengths given; every fifth token does not count. */
    public static List<TrainingExample> examples(int... lengths) {
        List<TrainingExample> examples = new ArrayList<>();
        for (int length : lengths) {
            int[] ids = new int[length];
            int[] labels = new int[length];
            for (int i = 0; i < length; i++) {
                ids[i] = (int) (Philox.uniform(5, examples.size(), i) * 640);
                labels[i] = i % 5 == 4 ? TrainingExample.IGNORED : ids[i];
            }
            examples.add(new TrainingExample(ids, labels, examples.size(), 1));
        }
        return examples;
    }

    @Override
    public void close() {
        adapter.close();
        scope.close();
        files.close();
        device.close();
    }
}
