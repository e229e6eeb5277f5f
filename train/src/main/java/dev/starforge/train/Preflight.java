package dev.starforge.train;

import dev.starforge.data.Dataset;
import dev.starforge.data.DatasetException;
import dev.starforge.data.Split;
import dev.starforge.model.Blueprint;
import dev.starforge.model.ModelException;
import dev.starforge.model.Quantization;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.NullOps;
import dev.starforge.tensor.Plain;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.LongSupplier;

/** Whether a run could begin, and what it would take: each thing that matters, looked at before hours are spent. */
public final class Preflight {
    private static final int PRODUCT = 512;
    private static final double EFFICIENCY = 0.4;
    private static final double MILLION = 1e6;
    private static final double DAY = 86_400;

    private final List<Finding> findings = new ArrayList<>();
    private final RunConfig config;
    private final Device device;
    private final LongSupplier nanoTime;

    /** How a thing is. */
    public enum Level {
        READY,
        WARNING,
        NOT_READY
    }

    /** One thing that was looked at. */
    public record Finding(Level level, String subject, String text) {}

    public Preflight(RunConfig config, Device device, LongSupplier nanoTime) {
        this.config = config;
        this.device = device;
        this.nanoTime = nanoTime;
    }

    public List<Finding> findings() {
        return List.copyOf(findings);
    }

    /** The worst of all findings. */
    public Level level() {
        return findings.stream().map(Finding::level).max(Enum::compareTo).orElse(Level.READY);
    }

    public void add(Level level, String subject, String text) {
        findings.add(new Finding(level, subject, text));
    }

    /** Memory and time of the model, known by its config. */
    public void model(Blueprint blueprint, MachineFacts machine) {
        Adaptation adapted;
        try {
            adapted = Adaptation.of(config, machine, Optional.of(blueprint), device);
        } catch (TrainException tooLarge) {
            add(Level.NOT_READY, "memory", String.valueOf(tooLarge.getMessage()));
            return;
        }
        RunConfig effective = adapted.config();
        MemoryPlan plan = MemoryPlan.of(
                blueprint,
                effective,
                effective.get(Keys.BATCH),
                effective.get(Keys.CONTEXT),
                effective.get(Keys.CHECKPOINTING).equals("true"),
                device);
        add(
                Level.READY,
                "memory",
                String.format(
                        Locale.ROOT,
                        "planned %.2f GiB of %.2f GiB: weights %.2f (%s), trained %.2f, optimizer %.2f, a batch of %d x %d %.2f, workspace %.2f",
                        plan.total() / 0x1p30,
                        adapted.budget() / 0x1p30,
                        plan.weights() / 0x1p30,
                        kept(blueprint, effective),
                        plan.trained() / 0x1p30,
                        plan.state() / 0x1p30,
                        effective.get(Keys.BATCH),
                        effective.get(Keys.CONTEXT),
                        (plan.step() + plan.sums()) / 0x1p30,
                        plan.workspace() / 0x1p30));
        long disk = 2 * (plan.trained() + plan.state()) * (effective.get(Keys.SAVE_LIMIT) + 2L);
        disk(disk);
        time(blueprint, effective);
    }

    /** What weights are kept in, in words. */
    private static String kept(Blueprint blueprint, RunConfig effective) {
        if (!effective.get(Keys.LORA)) {
            return "all trained";
        }
        if (!blueprint.quantized().isEmpty()) {
            return blueprint.quantized() + " as stored";
        }
        Quantization quantization = effective.quantization();
        return quantization.equals(Quantization.NONE)
                ? effective.get(Keys.DTYPE)
                : quantization + " and " + effective.get(Keys.DTYPE);
    }

    private void disk(long needed) {
        Path folder = Path.of(config.get(Keys.OUTPUT)).toAbsolutePath();
        while (folder.getParent() != null && !Files.isDirectory(folder)) {
            folder = folder.getParent();
        }
        try {
            long free = Checkpoints.REAL.free(folder);
            add(
                    free < needed ? Level.NOT_READY : Level.READY,
                    "disk",
                    (free >> 20) + " MiB free at " + folder + "; checkpoints take up to " + (needed >> 20) + " MiB");
        } catch (IOException failure) {
            add(Level.NOT_READY, "disk", folder + ": " + failure);
        }
    }

    /** From one product of this device: forward and backward are three products a weight, with checkpointing four. */
    private void time(Blueprint blueprint, RunConfig effective) {
        double flops = productFlops();
        long weights = 0;
        Scope shapes = new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope();
        for (Shape shape : blueprint.tensors(shapes).values()) {
            weights += shape.rank() > 1 ? shape.size() : 0;
        }
        double passes = effective.get(Keys.LORA) ? 2 : 3;
        passes += effective.get(Keys.CHECKPOINTING).equals("true") ? 1 : 0;
        double perToken = 2.0 * weights * passes;
        double perSecond = EFFICIENCY * flops / perToken;
        double epochs = tokens() * (double) effective.get(Keys.EPOCHS);
        double steps = (double) effective.get(Keys.MAX_STEPS)
                * effective.get(Keys.BATCH)
                * effective.get(Keys.ACCUMULATION)
                * effective.get(Keys.CONTEXT);
        double tokens = steps == 0 ? epochs : epochs == 0 ? steps : Math.min(steps, epochs);
        String rate = String.format(
                Locale.ROOT,
                "%s on this %s: about %.1f tokens/s (%.0f GFLOP/s in one product)",
                parameters(weights),
                device.name(),
                perSecond,
                flops / 1e9);
        double seconds = (tokens == 0 ? MILLION : tokens) / perSecond;
        double days = seconds / DAY;
        String took = days > 2 ? "about " + Math.round(days) + " days" : "about " + ReportPage.duration(seconds);
        if (tokens == 0) {
            add(Level.READY, "time", rate + "; a million tokens take " + took);
            return;
        }
        add(
                days > 2 ? Level.WARNING : Level.READY,
                "time",
                rate
                        + String.format(Locale.ROOT, "; %.2f million tokens take ", tokens / MILLION)
                        + took
                        + (days > 2
                                ? "; use a GPU, or a model of " + parameters((long) (weights / days))
                                        + ", which takes a day"
                                : ""));
    }

    /** A size as people say it. */
    static String parameters(long weights) {
        return weights >= 1e9
                ? String.format(Locale.ROOT, "%.1fB", weights / 1e9)
                : weights >= 1e6
                        ? String.format(Locale.ROOT, "%.0fM", weights / 1e6)
                        : String.format(Locale.ROOT, "%.0fK", weights / 1e3);
    }

    private long tokens() {
        if (config.get(Keys.DATASET).isEmpty()) {
            return 0;
        }
        try (Dataset dataset = Dataset.open(Path.of(config.get(Keys.DATASET)))) {
            return dataset.documents(Split.TRAIN).tokens();
        } catch (DatasetException unusable) {
            return 0;
        }
    }

    private double productFlops() {
        try (Scope scope = new Scope(device)) {
            var ops = device.ops(scope, Precision.FLOAT32, Fallback.QUIET);
            Tensor a = ops.run(new Plain.Fill(Spec.f32(PRODUCT, PRODUCT), 0.5f));
            double best = Double.MAX_VALUE;
            for (int i = 0; i < 12; i++) {
                long began = nanoTime.getAsLong();
                scope.within(() -> ops.project(a, a));
                device.synchronize();
                best = Math.min(best, (nanoTime.getAsLong() - began) * 1e-9);
            }
            return 2.0 * PRODUCT * PRODUCT * PRODUCT / best;
        }
    }

    /** The documents that the settings name. */
    public void data() {
        if (config.get(Keys.DATASET).isEmpty()) {
            String file = config.get(Keys.TRAIN);
            boolean there = !file.isEmpty() && Files.isRegularFile(Path.of(file));
            add(
                    there ? Level.READY : Level.NOT_READY,
                    "data",
                    there ? file : file.isEmpty() ? "set data.path or data.train" : file + ": there is no such file");
            return;
        }
        try (Dataset dataset = Dataset.open(Path.of(config.get(Keys.DATASET)))) {
            long train = dataset.documents(Split.TRAIN).tokens();
            long held = dataset.documents(Split.VALIDATION).tokens();
            Level level = train == 0 ? Level.NOT_READY : held == 0 ? Level.WARNING : Level.READY;
            add(
                    level,
                    "data",
                    dataset.documents(Split.TRAIN).count() + " documents of " + dataset.commits() + " commits, " + train
                            + " tokens to train on, " + held + " to validate with, head " + dataset.head());
        } catch (DatasetException | ModelException unusable) {
            add(Level.NOT_READY, "data", String.valueOf(unusable.getMessage()));
        }
    }
}
