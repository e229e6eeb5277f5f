package dev.starforge.train.run;

import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.tensor.device.Device;
import dev.starforge.text.config.Key;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.MetricsLog;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.corpus.DocumentSources;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.weights.TrainableModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * The files of a checkpoint besides the trained parameters, so that a resumed run gives the results of an uninterrupted
 * one: optimizer moments, counters, loss scale, settings, hashes of the data and the metrics so far.
 *
 * @param notes receives messages about a resumed run for the user
 */
record SavedState(
        Path run,
        RunConfig config,
        Trainer trainer,
        StepPlan plan,
        DocumentSources sources,
        Device device,
        Consumer<String> notes) {
    private static final String OPTIMIZER = "optimizer.safetensors";

    /** Settings that may change when a run is resumed. */
    private static final List<Key<?>> FREE = List.of(
            Keys.OUTPUT,
            Keys.OVERWRITE,
            Keys.MAX_MINUTES,
            Keys.SAVE_STEPS,
            Keys.SAVE_LIMIT,
            Keys.LOGGING_STEPS,
            Keys.THREADS,
            Keys.LOADERS,
            Keys.SAMPLES,
            Keys.PROMPTS,
            Keys.PROMPT_LANGUAGE,
            Keys.PROMPT_TOKENS,
            Keys.FORCE,
            Keys.INDEX,
            Keys.MEMORY_LIMIT);

    /** Settings that may increase, which makes a run longer. */
    private static final List<Key<Integer>> LENGTH = List.of(Keys.EPOCHS, Keys.MAX_STEPS);

    /** Writes the optimizer's moments, which may exceed the size of the parameters. */
    void writeOptimizer(Path folder) {
        List<SafetensorsWriter.SafetensorsEntry> entries = new ArrayList<>();
        trainer.state()
                .forEach((name, tensor) -> entries.add(SafetensorsWriter.SafetensorsEntry.of(name, tensor, device)));
        SafetensorsWriter.write(folder.resolve(OPTIMIZER), entries);
    }

    /** Writes all other files, which are small. */
    void write(Path folder, RunState state) {
        ObjectNode root = Jackson.object();
        state.write(root);
        root.put("updates", trainer.updates());
        root.put("loss_scale", trainer.lossScale().value());
        root.put("loss_scale_good_steps", trainer.lossScale().goodSteps());
        root.put("device", device.name());
        ObjectNode random = root.putObject("random");
        random.put("generator", "philox4x32-10, keyed by seed, step, sample, site and element");
        random.put("seed", config.get(Keys.SEED));
        plan.write(root.putObject("scheduler"));
        ObjectNode hashes = root.putObject("data_sha256");
        sources.hashes().forEach(hashes::put);
        Checkpoints.writeAtomically(folder.resolve(Checkpoints.STATE), Jackson.indented(root) + "\n");
        Checkpoints.writeAtomically(folder.resolve(RunFolder.CONFIG), config.yaml());
        try {
            Files.copy(run.resolve(MetricsLog.FILE), folder.resolve(MetricsLog.FILE));
        } catch (IOException failure) {
            throw new TrainException(folder + ": cannot be written: " + failure, failure);
        }
    }

    /** Rejects changed settings and data, then restores the trainer and {@code state}. */
    void restore(Path checkpoint, RunState state) {
        RunConfig before = RunConfig.read(checkpoint.resolve(RunFolder.CONFIG));
        JsonNode saved = Jackson.JSON.readTree(checkpoint.resolve(Checkpoints.STATE));
        requireSameSettings(before);
        if (!plan.hasTimeLimit()) {
            requireNotShorter(before, saved.path("scheduler").path("steps").longValue(plan.steps()));
        }
        for (Map.Entry<String, String> hash : sources.hashes().entrySet()) {
            if (!saved.path("data_sha256").path(hash.getKey()).asString("").equals(hash.getValue())) {
                throw new TrainException(checkpoint + ": was trained on other data: " + hash.getKey() + " has changed");
            }
        }
        String deviceBefore = saved.path("device").asString("");
        if (!deviceBefore.equals(device.name())) {
            notes.accept("the run was started on " + deviceBefore + " and continues on " + device.name()
                    + ": losses will agree, but not bit for bit");
        }
        TrainableModel.restore(checkpoint.resolve(OPTIMIZER), "", trainer.state(), device);
        trainer.restore(saved.path("updates").intValue());
        trainer.lossScale()
                .restore(
                        saved.path("loss_scale").doubleValue(1),
                        saved.path("loss_scale_good_steps").intValue(0));
        state.read(saved);
        plan.restore(saved.path("scheduler"), state.step, state.elapsedSeconds);
    }

    private void requireSameSettings(RunConfig before) {
        for (Key<?> key : Keys.ALL) {
            if (!FREE.contains(key) && !LENGTH.contains(key) && !before.get(key).equals(config.get(key))) {
                throw config.wrong(
                        key,
                        "the run in " + run + " was started with " + before.get(key)
                                + "; it cannot be resumed with another value");
            }
        }
    }

    /** A run may become longer. It then continues with the rates of the longer schedule. */
    private void requireNotShorter(RunConfig before, long stepsBefore) {
        long steps = plan.steps();
        for (Key<Integer> key : LENGTH) {
            if (!before.get(key).equals(config.get(key)) && steps < stepsBefore) {
                throw config.wrong(
                        key,
                        "the run in " + run + " was started with " + before.get(key)
                                + "; it can become longer, but not shorter");
            }
        }
        if (steps > stepsBefore) {
            notes.accept("the run continues to step " + steps + " instead of " + stepsBefore
                    + ": from here on the learning rate is that of the longer schedule, so the result is not that "
                    + "of a run that was as long from the start");
        }
    }
}
