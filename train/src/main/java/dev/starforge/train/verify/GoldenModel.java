package dev.starforge.train.verify;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.tensor.op.Ops;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.trainer.Trainer;
import dev.starforge.train.trainer.TrainerSettings;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.node.ObjectNode;

/**
 * Verifies one model folder with the results of an independent implementation in {@code expected.safetensors} and
 * {@code expected.json}. Computes and compares everything in them; other fields stay null.
 */
final class GoldenModel {
    private final Path folder;
    private final Device device;
    private final JsonConfig facts;
    private final Precision precision;
    private final Fallback fallback;
    private final GoldenTolerances tolerances;
    private final ExpertRouting routes;
    private final List<SafetensorsFile.SafetensorsData> computed = new ArrayList<>();
    private final ObjectNode report = Jackson.object();
    private boolean pass = true;

    GoldenModel(Path folder, Device device, Precision precision, Fallback fallback, GoldenTolerances tolerances) {
        this.folder = folder;
        this.device = device;
        this.facts = JsonConfig.read(folder.resolve("expected.json"));
        this.precision = precision.withRotary(rotary(facts));
        this.fallback = fallback;
        this.tolerances = tolerances;
        this.routes = new ExpertRouting(device);
    }

    /**
     * The reference results come from models that were cast to their file's type and back, rotary frequencies included
     * (docs/adr/0003). In normal use rotary frequencies stay in float32.
     */
    private static DType rotary(JsonConfig facts) {
        return switch (facts.string("dtype", "torch.float32")) {
            case "torch.float32" -> DType.F32;
            case "torch.bfloat16" -> DType.BF16;
            case "torch.float16" -> DType.F16;
            default -> throw facts.invalid("dtype", "torch.float32, torch.bfloat16 or torch.float16");
        };
    }

    /** The computed results, with the tensor names of {@code expected.safetensors}. */
    List<SafetensorsFile.SafetensorsData> computed() {
        return computed;
    }

    /** Compares everything; {@code replays} is the number of repetitions of a captured decode step. */
    ObjectNode verify(int replays) {
        report.put("name", folder.getFileName().toString());
        for (String field : List.of(
                "logits_range",
                "logits_max_abs_error",
                "long_logits_max_abs_error",
                "gguf_logits_max_abs_error",
                "gguf_stored_logits_max_abs_error",
                "greedy_match",
                "greedy_compared",
                "replays_identical",
                "shared_steps_identical",
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
                ModelFiles model = ModelFiles.open(folder)) {
            verifyBase(expected, model, replays);
            Path adapter = folder.resolve("adapter");
            if (Files.isDirectory(adapter) && expected.has("adapter_logits")) {
                verifyAdapter(expected, model, adapter);
            }
        }
        report.put("rerouted", routes.rerouted());
        pass &= routes.rerouted() <= tolerances.rerouted();
        report.put("pass", pass);
        return report;
    }

    private void verifyBase(SafetensorsFile expected, ModelFiles folder, int replays) {
        try (Scope weights = new Scope(device)) {
            Model model = folder.load(weights, precision);
            float[] logits = expected.floats("logits");
            double range = Logits.range(logits);
            report.put("logits_range", range);
            float[] ours = logits(model, sequences(expected, "input_ids"));
            keep("logits", expected, ours);
            logitsError("logits_max_abs_error", ours, logits, range);
            if (expected.has("long_input_ids")) {
                float[] last = expected.floats("long_logits_last8");
                float[] ending = lastLogits(model, sequences(expected, "long_input_ids"), last.length);
                keep("long_logits_last8", expected, ending);
                logitsError("long_logits_max_abs_error", ending, last, range);
            }
            if (expected.has("greedy_ids") && finite(ours)) {
                verifyGreedy(expected, model, replays);
            }
            if (Files.exists(this.folder.resolve("model.gguf"))) {
                verifyGguf("gguf_logits_max_abs_error", precision, logits, sequences(expected, "input_ids"), range);
                Precision kept = precision.withWeightsAsStored();
                verifyGguf("gguf_stored_logits_max_abs_error", kept, logits, sequences(expected, "input_ids"), range);
            }
            if (facts.has("base_loss") && facts.has("train")) {
                try (Trainer trainer = trainer(model, Map.of())) {
                    double loss = trainer.loss(examples(expected));
                    lossError("base_loss_error", relative(loss, facts.number("base_loss")));
                }
            }
        }
    }

    /** The last rows of each sequence's logits, {@code size} elements in total. */
    private float[] lastLogits(Model model, List<int[]> sequences, int size) {
        float[] all = logits(model, sequences);
        int each = size / sequences.size();
        float[] endings = new float[size];
        int end = 0;
        for (int i = 0; i < sequences.size(); i++) {
            end += sequences.get(i).length * model.info().vocabSize();
            System.arraycopy(all, end - each, endings, i * each, each);
        }
        return endings;
    }

    /** Compares the model converted by llama.cpp. GGUF cannot represent the sliding windows of two architectures. */
    private void verifyGguf(String field, Precision kept, float[] wanted, List<int[]> sequences, double range) {
        JsonConfig config = JsonConfig.read(folder.resolve("config.json"));
        boolean carried = !List.of("starcoder2", "mistral").contains(config.string("model_type"));
        int rows = carried ? Integer.MAX_VALUE : config.size("sliding_window", Integer.MAX_VALUE);
        try (Scope weights = new Scope(device);
                ModelFiles gguf = ModelFiles.open(folder.resolve("model.gguf"))) {
            Model model = gguf.load(weights, kept);
            float[] ours = logits(model, sequences);
            if (ours.length != wanted.length) {
                throw new ModelException(
                        folder.resolve("model.gguf"), "gives " + ours.length + " logits, expected " + wanted.length);
            }
            int vocabulary = model.info().vocabSize();
            int at = 0;
            double worst = 0;
            for (int[] sequence : sequences) {
                int end = at + Math.min(rows, sequence.length) * vocabulary;
                worst = Math.max(worst, Logits.maxAbsError(ours, wanted, at, end));
                at += sequence.length * vocabulary;
            }
            report.put(field, worst);
            pass &= worst <= tolerances.logits() * range;
        }
    }

    /**
     * Returns true if all logits are finite. Otherwise no token can be chosen, and the comparison before has failed.
     */
    private static boolean finite(float[] logits) {
        for (float logit : logits) {
            if (!Float.isFinite(logit)) {
                return false;
            }
        }
        return true;
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
            int compared = comparable(model, prompt.length, wanted.length);
            boolean match = Arrays.equals(ids, 0, compared, wanted, 0, compared);
            report.put("greedy_compared", compared);
            report.put("greedy_match", match);
            pass &= match || !tolerances.choices();
            if (replays > 0) {
                generator.feedOne(ids[ids.length - 1]);
                float[] first = generator.logits();
                boolean identical = true;
                for (int i = 0; i < replays; i++) {
                    generator.replay();
                    identical &= Arrays.equals(first, generator.logits());
                }
                report.put("replays_identical", identical);
                boolean shared = SharedSteps.identical(model, device, precision, fallback, prompt);
                report.put("shared_steps_identical", shared);
                pass &= identical && shared;
            }
        }
    }

    /**
     * Number of comparable token ids. When a sequence crosses into another rope regime, HF 5.17 drops its cache and
     * continues from the last token alone, so its later tokens are meaningless (docs/adr/0003).
     */
    private static int comparable(Model model, int from, int to) {
        for (int length = from; length < to; length++) {
            if (model.ropeRegime(length) != model.ropeRegime(from)) {
                return length;
            }
        }
        return to;
    }

    private void verifyAdapter(SafetensorsFile expected, ModelFiles folder, Path path) {
        try (Scope weights = new Scope(device);
                LoraAdapter adapter = LoraAdapter.open(path, weights)) {
            Model model = folder.load(weights, precision, adapter);
            List<int[]> sequences = sequences(expected, "input_ids");
            float[] wanted = expected.floats("adapter_logits");
            float[] ours = logits(model, sequences);
            keep("adapter_logits", expected, ours);
            logitsError("adapter_logits_max_abs_error", ours, wanted, Logits.range(wanted));
            if (facts.has("adapter_loss") && facts.has("train")) {
                verifyAdapterTraining(expected, model, adapter, sequences);
            }
        }
    }

    private void verifyAdapterTraining(
            SafetensorsFile expected, Model model, LoraAdapter adapter, List<int[]> sequences) {
        try (Trainer trainer = trainer(model, adapter.parameters())) {
            List<TrainingExample> examples = examples(expected);
            lossError("adapter_loss_error", relative(trainer.loss(examples), facts.number("adapter_loss")));
            if (expected.tensors().keySet().stream().anyMatch(name -> name.startsWith("grad."))) {
                verifyGradients(expected, trainer.gradients(examples));
            }
            if (facts.isUnset("train_losses")) {
                return;
            }
            verifyTraining(trainer, examples);
        }
        if (expected.has("trained_adapter_logits")) {
            float[] wanted = expected.floats("trained_adapter_logits");
            float[] trained = logits(model, sequences);
            keep("trained_adapter_logits", expected, trained);
            boolean before = pass;
            logitsError("trained_logits_max_abs_error", trained, wanted, Logits.range(wanted));
            pass = tolerances.choices() ? pass : before;
        }
    }

    private void verifyGradients(SafetensorsFile expected, Map<String, float[]> gradients) {
        double worst = 0;
        for (Map.Entry<String, float[]> gradient : gradients.entrySet()) {
            String name = "grad." + gradient.getKey();
            keep(name, expected, gradient.getValue());
            worst = Math.max(worst, distance(gradient.getValue(), expected.floats(name)));
        }
        report.put("grad_max_error", worst);
        pass &= worst <= tolerances.gradient();
    }

    /** |a - b| / |b|; 0 for two zero gradients. */
    private static double distance(float[] a, float[] b) {
        double difference = 0;
        double norm = 0;
        for (int i = 0; i < b.length; i++) {
            difference += Math.pow(a[i] - b[i], 2);
            norm += Math.pow(b[i], 2);
        }
        return difference == 0 ? 0 : Math.sqrt(difference / norm);
    }

    private void verifyTraining(Trainer trainer, List<TrainingExample> examples) {
        double[] losses = facts.numbers("train_losses");
        double[] norms = facts.numbers("grad_norms");
        double rate = facts.section("train").number("lr");
        double worstLoss = 0;
        double worstNorm = 0;
        for (int i = 0; i < losses.length; i++) {
            Trainer.Report step = trainer.step(examples, rate);
            worstLoss = Math.max(worstLoss, relative(step.loss(), losses[i]));
            worstNorm = Math.max(worstNorm, relative(step.gradientNorm(), norms[i]));
        }
        lossError("train_loss_max_error", worstLoss);
        report.put("grad_norm_max_error", worstNorm);
        pass &= worstNorm <= tolerances.gradient();
    }

    private Trainer trainer(Model model, Map<String, Tensor> parameters) {
        JsonConfig train = facts.section("train");
        double[] betas = train.numbers("betas");
        TrainerSettings settings = TrainerSettings.plain(
                betas[0],
                betas[1],
                train.number("eps"),
                train.number("weight_decay"),
                train.number("clip"),
                Checkpointing.FULL);
        return new Trainer(model, parameters, device, precision, fallback, settings);
    }

    /** Logits; in 16 bits computed with the experts that float32 activations select. */
    private float[] logits(Model model, List<int[]> sequences) {
        try (Scope step = new Scope(device)) {
            Batch batch = Batches.packed(model, step, sequences);
            Ops ops = device.ops(step, precision, fallback);
            if (precision.compute() != DType.F32) {
                Ops float32 = device.ops(step, Precision.FLOAT32, fallback);
                step.within(() -> model.forward(routes.recording(float32), batch, KvCache.NONE));
                ops = routes.replaying(ops);
            }
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

    private static List<TrainingExample> examples(SafetensorsFile expected) {
        List<int[]> ids = sequences(expected, "input_ids");
        List<int[]> labels = sequences(expected, "labels");
        List<TrainingExample> examples = new ArrayList<>();
        for (int i = 0; i < ids.size(); i++) {
            examples.add(new TrainingExample(ids.get(i), labels.get(i)));
        }
        return examples;
    }

    private void keep(String name, SafetensorsFile expected, float[] values) {
        checkSize(name, expected, values.length);
        computed.add(
                SafetensorsFile.SafetensorsData.of(name, expected.tensor(name).shape(), values));
    }

    private void keep(String name, SafetensorsFile expected, int[] values) {
        checkSize(name, expected, values.length);
        computed.add(
                SafetensorsFile.SafetensorsData.of(name, expected.tensor(name).shape(), values));
    }

    private static void checkSize(String name, SafetensorsFile expected, int size) {
        if (expected.tensor(name).shape().size() != size) {
            throw new ModelException(
                    expected.path(),
                    "tensor " + name + ": has shape " + expected.tensor(name).shape() + ", expected " + size
                            + " numbers");
        }
    }

    private void logitsError(String field, float[] ours, float[] wanted, double range) {
        double worst = Logits.maxAbsError(ours, wanted);
        report.put(field, worst);
        pass &= worst <= tolerances.logits() * range;
    }

    private void lossError(String field, double error) {
        report.put(field, error);
        pass &= error <= tolerances.loss();
    }

    private static double relative(double ours, double wanted) {
        return Math.abs(ours - wanted) / Math.abs(wanted);
    }
}
