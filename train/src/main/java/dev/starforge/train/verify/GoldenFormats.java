package dev.starforge.train.verify;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.generate.Sampler;
import dev.starforge.model.generate.SamplingParams;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.codec.Int8Groups;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/** The golden data besides models: tokenizers, weight formats, and one model in many GGUF types. */
final class GoldenFormats {
    /**
     * Error bounds for our logits against llama.cpp's, as a share of their range. Both decode weights identically.
     * llama.cpp rounds activations, to 8 bits in blocks of 32 or 256 for quantized types and to 16 bits for 16-bit
     * types; ours are float32. The bounds are about twice the measured errors. Our runs in 16 bits use at least their
     * own bound.
     */
    private static final Map<String, Double> BUDGETS = new TreeMap<>(Map.of("F32", 1e-4, "F16", 2e-3, "BF16", 1e-2));

    private static final double QUANTIZED_BUDGET = 3e-2;

    /** Bound for probabilities, which are float32 sums over the vocabulary on both sides. */
    private static final double SAMPLING_TOLERANCE = 1e-6;

    static final Map<String, SamplingParams> SAMPLINGS = new TreeMap<>(Map.of(
            "temperature_0.7", SamplingParams.PLAIN.withTemperature(0.7),
            "top_k_20", SamplingParams.PLAIN.withTopK(20),
            "top_p_0.9", SamplingParams.PLAIN.withTopP(0.9),
            "min_p_0.1", SamplingParams.PLAIN.withMinP(0.1),
            "typical_0.8", SamplingParams.PLAIN.withTypicalP(0.8),
            "repetition_1.3", SamplingParams.PLAIN.withRepetitionPenalty(1.3),
            "chain_rep_temp_topk_topp",
                    SamplingParams.PLAIN
                            .withRepetitionPenalty(1.3)
                            .withTemperature(0.7)
                            .withTopK(20)
                            .withTopP(0.9)));

    private GoldenFormats() {}

    /** Compares one tokenizer with every text of its {@code expected.json}. */
    static ObjectNode tokenizer(Path folder) {
        Tokenizer tokenizer = Tokenizer.read(folder.resolve("tokenizer.json"));
        int cases = 0;
        int matched = 0;
        for (JsonNode text :
                Jackson.JSON.readTree(folder.resolve("expected.json").toFile()).path("cases")) {
            cases++;
            int[] plain = ids(text.path("ids_no_special"));
            String given = text.path("text").stringValue();
            boolean match = Arrays.equals(tokenizer.encode(given, true), ids(text.path("ids")))
                    && Arrays.equals(tokenizer.encode(given, false), plain)
                    && tokenizer
                            .decode(plain, false)
                            .equals(text.path("decoded").stringValue())
                    && tokenizer
                            .decode(plain, true)
                            .equals(text.path("decoded_skip_special").stringValue());
            matched += match ? 1 : 0;
        }
        return Jackson.object()
                .put("name", folder.getFileName().toString())
                .put("cases", cases)
                .put("matched", matched)
                .put("pass", cases > 0 && matched == cases);
    }

    private static int[] ids(JsonNode list) {
        int[] ids = new int[list.size()];
        Arrays.setAll(ids, i -> list.get(i).intValue());
        return ids;
    }

    /** Compares the distributions after each HF logits processor and after a chain of them. */
    static ObjectNode sampling(SafetensorsFile file, String name) {
        float[] logits = file.floats("logits");
        int[] history = file.ints("history");
        float[] wanted = file.floats("probs_" + name);
        int vocabulary = (int) file.tensor("logits").shape().last();
        int length = (int) file.tensor("history").shape().last();
        double worst = 0;
        for (int row = 0; row < logits.length / vocabulary; row++) {
            float[] ours = Sampler.distribution(
                    Objects.requireNonNull(SAMPLINGS.get(name), name),
                    Arrays.copyOfRange(logits, row * vocabulary, (row + 1) * vocabulary),
                    Arrays.copyOfRange(history, row * length, (row + 1) * length),
                    new int[0]);
            float[] theirs = Arrays.copyOfRange(wanted, row * vocabulary, (row + 1) * vocabulary);
            worst = Math.max(worst, Logits.maxAbsError(ours, theirs, 0, vocabulary));
        }
        return Jackson.object().put("name", name).put("max_abs_error", worst).put("pass", worst <= SAMPLING_TOLERANCE);
    }

    /** Compares one matrix in int8 groups: quantized values, scales and decoded values must be identical. */
    static ObjectNode int8Groups(SafetensorsFile file, String name) {
        int rows = (int) file.tensor(name + ".w").shape().dim(0);
        int columns = (int) file.tensor(name + ".w").shape().dim(1);
        int group = Integer.parseInt(name.substring(name.indexOf('g') + 1));
        Int8Groups ours = Int8Groups.encode(file.floats(name + ".w"), rows, columns, group);
        byte[] quants = file.bytes(name + ".q", "I8").array();
        short[] scales = new short[ours.scales().length];
        file.bytes(name + ".scale", "F16").asShortBuffer().get(scales);
        boolean pass = Arrays.equals(ours.quants(), quants)
                && Arrays.equals(ours.scales(), scales)
                && Arrays.equals(ours.decode(), file.floats(name + ".deq"));
        return Jackson.object().put("name", name).put("pass", pass);
    }

    /**
     * Compares the golden GGUF model in one type with llama.cpp, once with weights converted to {@code precision} and
     * once with weights as stored, within the same bound.
     */
    static ObjectNode gguf(Path folder, String type, Device device, Precision precision, Fallback fallback) {
        Path path = folder.resolve("micro-" + type + ".gguf");
        JsonConfig facts = JsonConfig.read(folder.resolve("expected.json"));
        int[] prompt = whole(facts.numbers("prompt"));
        ObjectNode report = Jackson.object().put("type", type);
        try (SafetensorsFile expected = SafetensorsFile.open(folder.resolve("expected.safetensors"));
                GgufFile file = GgufFile.open(path);
                ModelFiles files = ModelFiles.open(path)) {
            float[] decoded = expected.floats(type + ".attn_k_dequantized");
            boolean exact =
                    Arrays.equals(decoded, Arrays.copyOf(file.readFloats("blk.0.attn_k.weight"), decoded.length));
            float[] wanted = expected.floats(type + ".logits");
            double range = Logits.range(wanted);
            double own = precision.compute() == DType.F32
                    ? 0
                    : GoldenTolerances.of(device, precision).logits();
            double budget = Math.max(own, BUDGETS.getOrDefault(type, QUANTIZED_BUDGET));
            report.put("dequantized_exact", exact);
            report.put("logits_range", range);
            report.put("budget", budget);
            boolean pass = exact;
            for (Precision kept : List.of(precision, precision.withWeightsAsStored())) {
                String prefix = kept == precision ? "" : "stored_";
                try (Scope weights = new Scope(device)) {
                    Model model = files.load(weights, kept);
                    double error = lastError(model, device, kept, fallback, prompt, wanted);
                    report.put(prefix + "logits_max_abs_error", error);
                    report.put(
                            prefix + "greedy_match_tokens", greedy(model, device, kept, fallback, prompt, facts, type));
                    report.put(prefix + "weight_bytes", weights.usedBytes());
                    pass &= error <= budget * range;
                }
            }
            report.put("pass", pass);
        }
        return report;
    }

    /** The largest error of the logits after the prompt. */
    private static double lastError(
            Model model, Device device, Precision precision, Fallback fallback, int[] prompt, float[] wanted) {
        try (Scope step = new Scope(device)) {
            float[] ours = device.floats(model.forward(
                    device.ops(step, precision, fallback), Batches.packed(model, step, List.of(prompt)), KvCache.NONE));
            float[] last = Arrays.copyOfRange(ours, ours.length - wanted.length, ours.length);
            return Logits.maxAbsError(last, wanted, 0, wanted.length);
        }
    }

    /** Number of greedily decoded tokens before the first difference to llama.cpp. */
    private static int greedy(
            Model model,
            Device device,
            Precision precision,
            Fallback fallback,
            int[] prompt,
            JsonConfig facts,
            String type) {
        int[] wanted = whole(facts.section("greedy").numbers(type));
        int[] same = {0};
        try (Generator generator = new Generator(model, device, precision, fallback, prompt.length + wanted.length)) {
            generator.greedy(prompt, wanted.length, id -> {
                boolean matches = id == wanted[same[0]];
                same[0] += matches ? 1 : 0;
                return matches;
            });
        }
        return same[0];
    }

    private static int[] whole(double[] numbers) {
        return Arrays.stream(numbers).mapToInt(number -> (int) number).toArray();
    }
}
