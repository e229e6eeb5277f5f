package dev.starforge.cli.train;

import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.Quantization;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.model.lora.LoraConfig;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.plan.ProfiledDevice;
import dev.starforge.train.plan.StepProfile;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.trainer.TrainerSettings;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import tools.jackson.databind.node.ObjectNode;

/**
 * Measures training steps on random tokens: an adapter of rank 32 on the projections of {@code auto}, or all weights.
 *
 * @param base how the frozen projections are quantized, for an adapter
 * @param sequences of a step, all in one batch
 * @param context tokens of each
 */
public record TrainBench(
        ModelFiles files,
        boolean full,
        Quantization base,
        int sequences,
        int context,
        Checkpointing checkpointing,
        int repeat,
        boolean profile,
        LongSupplier nanoTime) {
    private static final int RANK = 32;
    private static final int WARM = 3;

    /** Measurements of each step. */
    public record Result(List<Double> seconds, long bytes, double loss, Optional<StepProfile> profile) {
        double median() {
            return seconds.stream().sorted().toList().get(seconds.size() / 2);
        }
    }

    public Result run(Device opened, Precision precision, Fallback fallback) {
        ProfiledDevice device = new ProfiledDevice(opened, nanoTime);
        try (Scope weights = new Scope(device)) {
            Map<String, Tensor> trained = new LinkedHashMap<>();
            Model model = full ? whole(weights, trained) : adapted(weights, precision, trained);
            TrainerSettings how = TrainerSettings.plain(0.9, 0.999, 1e-8, 0.01, 1, checkpointing);
            try (Trainer trainer = new Trainer(model, trained, device, precision, fallback, how)) {
                return run(device, precision, weights, model, trainer);
            }
        }
    }

    private Model whole(Scope weights, Map<String, Tensor> trained) {
        List<Parameter> parts = new ArrayList<>();
        Model model = files.load(weights, Precision.FLOAT32, parts);
        parts.forEach(part -> trained.put(part.names().getFirst(), part.tensor()));
        return model;
    }

    private Model adapted(Scope weights, Precision precision, Map<String, Tensor> trained) {
        LoraConfig settings =
                new LoraConfig(RANK, 2 * RANK, 0, LoraConfig.automatic(files.architecture()), false, false, false);
        LoraAdapter adapter = LoraAdapter.create(settings, 0, weights);
        Model model = files.quantized(base).load(weights, precision, adapter);
        trained.putAll(adapter.parameters());
        return model;
    }

    private String what() {
        return full ? "every weight" : "adapter of rank " + RANK + " on " + base;
    }

    private Result run(ProfiledDevice device, Precision precision, Scope weights, Model model, Trainer trainer) {
        Random random = new Random(0);
        int vocabulary = model.info().vocabSize();
        List<TrainingExample> batch = Stream.generate(
                        () -> random.ints(context, 0, vocabulary).toArray())
                .limit(sequences)
                .map(ids -> new TrainingExample(ids, ids))
                .toList();
        List<Double> seconds = new ArrayList<>();
        double loss = 0;
        for (int i = 0; i < WARM + repeat; i++) {
            long began = nanoTime.getAsLong();
            loss = trainer.step(batch, 2e-4).loss();
            if (i >= WARM) {
                seconds.add((nanoTime.getAsLong() - began) * 1e-9);
            }
        }
        long bytes = weights.usedBytes() + trainer.stateBytes() + trainer.peakBytes() + device.workspaceBytes();
        Result result = new Result(seconds, bytes, loss, Optional.empty());
        if (!profile) {
            return result;
        }
        device.start();
        trainer.step(batch, 2e-4);
        List<StepProfile.Row> rows = device.rows();
        double peak = device.peak(precision.compute());
        return new Result(seconds, bytes, loss, Optional.of(new StepProfile(1, result.median(), peak, rows)));
    }

    private double tokensPerSecond(double seconds) {
        return sequences * (double) context / seconds;
    }

    public ObjectNode json(Device device, Result result) {
        ObjectNode root = Jackson.object();
        root.put("model", files.path().toString()).put("trained", what()).put("device", device.name());
        root.put("sequences", sequences).put("context", context);
        root.put("checkpointing", checkpointing.name().toLowerCase(Locale.ROOT));
        root.put("train_tok_s", tokensPerSecond(result.median())).put("step_ms", 1e3 * result.median());
        root.put("peak_bytes", result.bytes()).put("loss", result.loss());
        double[] each =
                result.seconds().stream().mapToDouble(this::tokensPerSecond).toArray();
        Arrays.stream(each).forEach(root.putArray("train_tok_s_each")::add);
        result.profile().ifPresent(profile -> root.set("profile", profile.json()));
        return root;
    }

    public void print(PrintWriter out, Result result) {
        out.printf(
                Locale.ROOT,
                "train        %9.1f tokens/s   %9.2f ms a step of %d x %d, %s, checkpointing %s%n",
                tokensPerSecond(result.median()),
                1e3 * result.median(),
                sequences,
                context,
                what(),
                checkpointing.name().toLowerCase(Locale.ROOT));
        out.printf(Locale.ROOT, "memory       %9.2f GiB%n", result.bytes() / (double) (1L << 30));
        result.profile().ifPresent(profile -> profile.table().forEach(out::println));
        out.flush();
    }
}
