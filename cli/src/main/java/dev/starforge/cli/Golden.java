package dev.starforge.cli;

import dev.starforge.model.Batches;
import dev.starforge.model.Config;
import dev.starforge.model.Generator;
import dev.starforge.model.KvCache;
import dev.starforge.model.LoraAdapter;
import dev.starforge.model.Model;
import dev.starforge.model.ModelFolder;
import dev.starforge.model.SafetensorsFile;
import dev.starforge.tensor.Batch;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.Ops;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.train.Example;
import dev.starforge.train.Trainer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.node.ObjectNode;

/**
 * One model folder with results of an independent implementation beside it: {@code expected.safetensors} and
 * {@code expected.json}. Computes everything they hold and compares; what they do not hold stays null.
 */
final class Golden {
    private final Path folder;
    private final Device device;
    private final Config facts;
    private final Precision precision;
    private final Fallback fallback;
    private final Tolerances tolerances;
    private final List<SafetensorsFile.Entry> computed = new ArrayList<>();
    private final ObjectNode report = Json.object();
    private boolean pass = true;

    /**
     * What counts as equal.
     *
     * @param logits largest error of a logit, as a share of the logits' range
     * @param loss largest relative error of a loss
     * @param gradient largest error of a gradient tensor, as a share of its norm
     */
    record Tolerances(double logits, double loss, double gradient) {}

    Golden(Path folder, Device device, Precision precision, Fallback fallback, Tolerances tolerances) {
        this.folder = folder;
        this.device = device;
        this.facts = Config.read(folder.resolve("expected.json"));
        this.precision = precision.withRotary(rotary(facts));
        this.fallback = fallback;
        this.tolerances = tolerances;
    }

    /**
     * The reference results come from models that were cast to their file's type and back, rotary frequencies included
     * (docs/adr/0003). Loading such a file for use keeps them in float32.
     */
    private static DType rotary(Config facts) {
        return switch (facts.text("dtype", "torch.float32")) {
            case "torch.float32" -> DType.F32;
            case "torch.bfloat16" -> DType.BF16;
            case "torch.float16" -> DType.F16;
            default -> throw facts.wrong("dtype", "torch.float32, torch.bfloat16 or torch.float16");
        };
    }

    /** What was computed, under the names of {@code expected.safetensors}. */
    List<SafetensorsFile.Entry> computed() {
        return computed;
    }

    /** Compares everything; {@code replays} is how often a recorded decode step must repeat itself. */
    ObjectNode verify(int replays) {
        report.put("name", folder.getFileName().toString());
        for (String field : List.of(
                "logits_range",
                "logits_max_abs_error",
                "long_logits_max_abs_error",
                "greedy_match",
                "replays_identical",
                "base_loss_error",
                "adapter_logits_max_abs_error",
                "adapter_loss_error",
                "grad_max_error",
                "grad_norm_max_error",
                "train_loss_max_error",
                "trained_logits_max_abs_error")) {
            report.putNull(field);
        }
        report.put("rotary_dtype", precision.rotary().name());
        try (SafetensorsFile expected = SafetensorsFile.open(folder.resolve("expected.safetensors"));
                ModelFolder model = ModelFolder.open(folder)) {
            verifyBase(expected, model, replays);
            Path adapter = folder.resolve("adapter");
            if (Files.isDirectory(adapter)) {
                verifyAdapter(expected, model, adapter);
            }
        }
        report.put("pass", pass);
        return report;
    }

    private void verifyBase(SafetensorsFile expected, ModelFolder folder, int replays) {
        try (Scope weights = new Scope(device)) {
            Model model = folder.load(weights, precision);
            float[] logits = expected.floats("logits");
            double range = range(logits);
            report.put("logits_range", range);
            float[] ours = logits(model, sequences(expected, "input_ids"));
            keep("logits", expected, ours);
            logitsError("logits_max_abs_error", ours, logits, range);
            if (expected.has("long_input_ids")) {
                float[] last = expected.floats("long_logits_last8");
                float[] all = logits(model, sequences(expected, "long_input_ids"));
                float[] ending = Arrays.copyOfRange(all, all.length - last.length, all.length);
                keep("long_logits_last8", expected, ending);
                logitsError("long_logits_max_abs_error", ending, last, range);
            }
            if (expected.has("greedy_ids")) {
                verifyGreedy(expected, model, replays);
            }
            if (facts.has("base_loss")) {
                try (Trainer trainer = trainer(model, Map.of())) {
                    double loss = trainer.loss(examples(expected));
                    lossError("base_loss_error", relative(loss, facts.number("base_loss")));
                }
            }
        }
    }

    private void verifyGreedy(SafetensorsFile expected, Model model, int replays) {
        int[] prompt = expected.ints("greedy_prompt");
        int[] wanted = expected.ints("greedy_ids");
        int[] ids = Arrays.copyOf(prompt, wanted.length);
        try (Generator generator = new Generator(model, device, precision, fallback, wanted.length + 1)) {
            int[] at = {prompt.length};
            generator.greedy(prompt, wanted.length - prompt.length, id -> {
                ids[at[0]++] = id;
                return true;
            });
            keep("greedy_ids", expected, ids);
            boolean match = Arrays.equals(ids, wanted);
            report.put("greedy_match", match);
            pass &= match;
            if (replays > 0) {
                generator.feedOne(ids[ids.length - 1]);
                float[] first = generator.logits();
                boolean identical = true;
                for (int i = 0; i < replays; i++) {
                    generator.replay();
                    identical &= Arrays.equals(first, generator.logits());
                }
                report.put("replays_identical", identical);
                pass &= identical;
            }
        }
    }

    private void verifyAdapter(SafetensorsFile expected, ModelFolder folder, Path path) {
        try (Scope weights = new Scope(device);
                LoraAdapter adapter = LoraAdapter.open(path, weights)) {
            Model model = folder.load(weights, precision, adapter);
            List<int[]> sequences = sequences(expected, "input_ids");
            float[] wanted = expected.floats("adapter_logits");
            float[] ours = logits(model, sequences);
            keep("adapter_logits", expected, ours);
            logitsError("adapter_logits_max_abs_error", ours, wanted, range(wanted));
            try (Trainer trainer = trainer(model, adapter.parameters())) {
                List<Example> examples = examples(expected);
                lossError("adapter_loss_error", relative(trainer.loss(examples), facts.number("adapter_loss")));
                verifyGradients(expected, trainer.gradients(examples));
                verifyTraining(trainer, examples);
            }
            float[] trained = logits(model, sequences);
            float[] wantedTrained = expected.floats("trained_adapter_logits");
            keep("trained_adapter_logits", expected, trained);
            logitsError("trained_logits_max_abs_error", trained, wantedTrained, range(wantedTrained));
        }
    }

    private void verifyGradients(SafetensorsFile expected, Map<String, float[]> gradients) {
        double worst = 0;
        for (Map.Entry<String, float[]> gradient : gradients.entrySet()) {
            String name = "grad." + gradient.getKey();
            float[] wanted = expected.floats(name);
            keep(name, expected, gradient.getValue());
            double difference = 0;
            double norm = 0;
            for (int i = 0; i < wanted.length; i++) {
                difference += Math.pow(gradient.getValue()[i] - wanted[i], 2);
                norm += Math.pow(wanted[i], 2);
            }
            worst = Math.max(worst, Math.sqrt(difference / norm));
        }
        report.put("grad_max_error", worst);
        pass &= worst <= tolerances.gradient();
    }

    private void verifyTraining(Trainer trainer, List<Example> examples) {
        double[] losses = facts.numbers("train_losses");
        double[] norms = facts.numbers("grad_norms");
        double worstLoss = 0;
        double worstNorm = 0;
        for (int i = 0; i < losses.length; i++) {
            Trainer.Report step = trainer.step(examples);
            worstLoss = Math.max(worstLoss, relative(step.loss(), losses[i]));
            worstNorm = Math.max(worstNorm, relative(step.gradientNorm(), norms[i]));
        }
        lossError("train_loss_max_error", worstLoss);
        report.put("grad_norm_max_error", worstNorm);
        pass &= worstNorm <= tolerances.gradient();
    }

    private Trainer trainer(Model model, Map<String, Tensor> parameters) {
        Config train = facts.section("train");
        double[] betas = train.numbers("betas");
        Trainer.Settings settings = new Trainer.Settings(
                train.number("lr"),
                betas[0],
                betas[1],
                train.number("eps"),
                train.number("weight_decay"),
                train.number("clip"),
                true);
        return new Trainer(model, parameters, device, precision, fallback, settings);
    }

    private float[] logits(Model model, List<int[]> sequences) {
        try (Scope step = new Scope(device)) {
            Ops ops = device.ops(step, precision, fallback);
            Batch batch = Batches.packed(step, sequences);
            return device.floats(model.forward(ops, batch, KvCache.NONE));
        }
    }

    private static List<int[]> sequences(SafetensorsFile file, String name) {
        Shape shape = file.tensor(name).shape();
        int length = Math.toIntExact(shape.last());
        int[] flat = file.ints(name);
        List<int[]> rows = new ArrayList<>();
        for (int at = 0; at < flat.length; at += length) {
            rows.add(Arrays.copyOfRange(flat, at, at + length));
        }
        return rows;
    }

    private static List<Example> examples(SafetensorsFile expected) {
        List<int[]> ids = sequences(expected, "input_ids");
        List<int[]> labels = sequences(expected, "labels");
        List<Example> examples = new ArrayList<>();
        for (int i = 0; i < ids.size(); i++) {
            examples.add(new Example(ids.get(i), labels.get(i)));
        }
        return examples;
    }

    private void keep(String name, SafetensorsFile expected, float[] values) {
        computed.add(SafetensorsFile.Entry.of(name, expected.tensor(name).shape(), values));
    }

    private void keep(String name, SafetensorsFile expected, int[] values) {
        computed.add(SafetensorsFile.Entry.of(name, expected.tensor(name).shape(), values));
    }

    private void logitsError(String field, float[] ours, float[] wanted, double range) {
        double worst = 0;
        for (int i = 0; i < wanted.length; i++) {
            double error = Math.abs(ours[i] - wanted[i]);
            worst = error <= worst ? worst : error; // a NaN sticks
        }
        report.put(field, worst);
        pass &= ours.length == wanted.length && worst <= tolerances.logits() * range;
    }

    private void lossError(String field, double error) {
        report.put(field, error);
        pass &= error <= tolerances.loss();
    }

    private static double relative(double ours, double wanted) {
        return Math.abs(ours - wanted) / Math.abs(wanted);
    }

    private static double range(float[] values) {
        double low = Double.POSITIVE_INFINITY;
        double high = Double.NEGATIVE_INFINITY;
        for (float value : values) {
            low = Math.min(low, value);
            high = Math.max(high, value);
        }
        return high - low;
    }
}
