package dev.starforge.train;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Other programs' names for settings, each with an answer: this key of ours with that value, or no and why. Sections are
 * not looked at where a name can mean one thing only, since configs found in the wild put them anywhere.
 */
final class Spellings {
    /** What becomes of a foreign setting. */
    sealed interface Answer {
        /** It is this one of ours; {@code words} translates values, and what it does not have stays. */
        record Alias(String path, Map<String, Object> words) implements Answer {}

        /** Only this value is what we do anyway. */
        record Only(List<String> values, String reason) implements Answer {}

        /** Not done, and why. */
        record Never(String reason) implements Answer {}

        /** Added to the context, because both together are one sequence here. */
        record Adds() implements Answer {}
    }

    private static final Map<String, Object> PRECISIONS =
            Map.of("float16", "fp16", "bfloat16", "bf16", "float32", "no", "fp32", "no");

    static final Map<String, Answer> BY_NAME = table();

    private Spellings() {}

    private static Map<String, Answer> table() {
        Map<String, Answer> table = new LinkedHashMap<>();
        table.put("force_device", new Answer.Alias("device.force", Map.of("mps", "metal")));
        table.put(
                "attention_backend",
                new Answer.Alias(
                        "device.attention",
                        Map.of("metal", "flash", "xformers", "flash", "sdpa", "auto", "native", "plain")));
        table.put(
                "use_mixed_precision",
                new Answer.Alias("optimization.mixed_precision", Map.of("true", "bf16", "false", "no")));
        table.put("train_path", new Answer.Alias("data.train", Map.of()));
        table.put("val_path", new Answer.Alias("data.validation", Map.of()));
        table.put("test_path", new Answer.Alias("data.test", Map.of()));
        table.put("context_window", new Answer.Alias("model.context_window", Map.of()));
        table.put("target_window", new Answer.Adds());
        table.put("bnb_4bit_compute_dtype", new Answer.Alias("optimization.mixed_precision", PRECISIONS));
        table.put("bnb_4bit_use_double_quant", new Answer.Alias("quantization.double_quantization", Map.of()));
        table.put("bnb_4bit_quant_type", new Answer.Only(List.of("nf4"), "4-bit bases are NF4"));
        table.put("mps_group_size", new Answer.Alias("quantization.group_size", Map.of()));
        table.put("mps_compute_dtype", new Answer.Alias("device.metal_precision", PRECISIONS));
        table.put(
                "mps_prefer_fp16", new Answer.Alias("device.metal_precision", Map.of("true", "fp16", "false", "auto")));
        table.put("mps_quant_dtype", new Answer.Alias("quantization.metal_storage", Map.of()));
        table.put("num_workers", new Answer.Alias("device.threads", Map.of()));
        table.put(
                "torch_dtype",
                new Answer.Alias("model.dtype", Map.of("bfloat16", "bf16", "float16", "fp16", "float32", "fp32")));
        table.put(
                "trust_remote_code",
                new Answer.Only(List.of("false"), "code that comes with a model is never executed"));
        table.put("device_map", new Answer.Never("a model runs on one device; see device.force"));
        table.put("num_beams", new Answer.Only(List.of("1"), "there is no beam search"));
        table.put("fp16", new Answer.Never("see optimization.mixed_precision"));
        table.put("deepspeed", new Answer.Never("training runs in one process"));
        return table;
    }

    static Optional<Answer> of(String path) {
        return Optional.ofNullable(BY_NAME.get(path.substring(path.lastIndexOf('.') + 1)));
    }
}
