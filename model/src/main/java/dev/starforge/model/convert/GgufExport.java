package dev.starforge.model.convert;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.model.file.SafetensorsWriter.FloatReader;
import dev.starforge.model.gguf.GgufConfig;
import dev.starforge.model.gguf.GgufNames;
import dev.starforge.model.gguf.GgufSource;
import dev.starforge.model.gguf.GgufValue;
import dev.starforge.model.gguf.GgufWriter;
import dev.starforge.model.layer.RotaryEmbedding;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Exports a model in HF's form to a GGUF file for llama.cpp. Names come from {@link GgufNames}, the tables that
 * {@link GgufSource} and {@link GgufConfig} read by. This class does the other conversions: it stacks experts, reorders
 * the rows of Llama's q and k projections, splits MLA's kv_b projection and writes rotary frequencies as divisors. It
 * refuses models that llama.cpp would load but compute differently. Sliding windows that llama.cpp ignores are the
 * exception: they are written, and a note names the length from which results differ.
 */
public final class GgufExport {
    private static final int SIGMOID = 2;
    private static final int SOFTMAX = 1;

    private final JsonConfig config;
    private final String type;
    private final String architecture;
    private final Map<String, Shape> tensors;
    private final Map<String, GgufValue> metadata = new LinkedHashMap<>();
    private final List<GgufTensor> contents = new ArrayList<>();
    private final List<String> notes = new ArrayList<>();

    /** Readers of the tensors by HF name. */
    private final Function<String, FloatReader> values;

    /** The type of each matrix by HF name. */
    private final Function<String, BlockFormat> formats;

    public GgufExport(
            JsonConfig config,
            Map<String, Shape> tensors,
            Function<String, FloatReader> values,
            Function<String, BlockFormat> formats) {
        this.config = config;
        this.type = config.string("model_type");
        this.architecture = GgufNames.architecture(type);
        this.tensors = tensors;
        this.values = values;
        this.formats = formats;
    }

    /** Writes the file and returns notes for the user. */
    public List<String> write(Path file, String name, Map<String, GgufValue> vocabulary) {
        GgufContents whole = contents(name, vocabulary);
        GgufWriter.write(
                file,
                whole.metadata(),
                whole.tensors().stream().map(GgufTensor::asStored).toList());
        return whole.notes();
    }

    /** Returns the contents of the file. */
    GgufContents contents(String name, Map<String, GgufValue> vocabulary) {
        refuseWhatDiffers();
        metadata.put("general.architecture", GgufValue.string(architecture));
        metadata.put("general.type", GgufValue.string("model"));
        metadata.put("general.name", GgufValue.string(name));
        settings();
        rope();
        tensors();
        BlockFormat most = formats.apply(tensors.keySet().iterator().next());
        metadata.put(
                "general.file_type",
                GgufValue.u32(
                        switch (most) {
                            case F16 -> 1;
                            case BF16 -> 32;
                            default -> 0;
                        }));
        metadata.put("general.quantization_version", GgufValue.u32(2));
        metadata.putAll(vocabulary);
        return new GgufContents(metadata, contents, notes);
    }

    private void refuseWhatDiffers() {
        boolean normalized = config.bool("norm_topk_prob", type.equals("deepseek_v3"));
        if ((type.equals("qwen2_moe") || type.equals("deepseek")) && normalized
                || type.equals("qwen3_moe") && !normalized) {
            throw config.invalid("norm_topk_prob", !normalized + ", since llama.cpp assumes it");
        }
        if (type.startsWith("qwen2_") || type.startsWith("qwen3_")) {
            if (!config.integers("mlp_only_layers").isEmpty()) {
                throw config.invalid(
                        "mlp_only_layers", "an empty list: llama.cpp has experts in every layer of " + type);
            }
        }
        if (type.equals("deepseek_v2") && grouped()) {
            throw config.invalid("topk_method", "greedy: llama.cpp ranks groups by their two best experts");
        }
        if (config.bool("use_sliding_window", false)) {
            throw config.invalid("use_sliding_window", "false: GGUF cannot store sliding windows of some layers only");
        }
        if (type.equals("starcoder2") && !config.bool("use_bias", true)) {
            throw config.invalid("use_bias", "true: llama.cpp requires the biases of " + type);
        }
        if (type.equals("phi") && !tensors.containsKey("lm_head.weight")) {
            throw config.invalid("tie_word_embeddings", "false: llama.cpp requires the output matrix of " + type);
        }
    }

    private boolean grouped() {
        return !config.string("topk_method", "greedy").equals("greedy") && config.size("n_group", 1) > 1;
    }

    private boolean latent() {
        return type.startsWith("deepseek_");
    }

    /** Returns true for keys that llama.cpp reads but its converter does not write. */
    private boolean isLeftOut(GgufNames.ConfigKey setting) {
        return switch (setting.hf()) {
            case "sliding_window" -> config.slidingWindow() == 0;
            case "n_group", "topk_group" -> !type.equals("deepseek_v3");
            case "norm_topk_prob" -> !latent();
            default -> false;
        };
    }

    private void settings() {
        for (GgufNames.ConfigKey setting : GgufNames.configKeys(type)) {
            if (!config.has(setting.hf()) || isLeftOut(setting) || metadata.containsKey(key(setting.gguf()))) {
                continue;
            }
            put(
                    setting.gguf(),
                    switch (setting.kind()) {
                        case INT -> GgufValue.u32(config.integer(setting.hf()));
                        case FLOAT -> GgufValue.f32((float) config.number(setting.hf()));
                        case BOOL -> GgufValue.bool(config.bool(setting.hf(), false));
                    });
        }
        int heads = config.size("num_attention_heads");
        int width = config.size("hidden_size");
        put("vocab_size", GgufValue.u32(config.size("vocab_size")));
        put("feed_forward_length", GgufValue.u32(config.size("intermediate_size")));
        metadata.putIfAbsent(key("attention.head_count_kv"), GgufValue.u32(heads));
        if (latent()) {
            latentSettings();
        } else {
            int head = config.size("head_dim", config.size("kv_channels", width / heads));
            if (head * heads != width || config.has("head_dim")) {
                put("attention.key_length", GgufValue.u32(head));
                put("attention.value_length", GgufValue.u32(head));
            }
            put("rope.dimension_count", GgufValue.u32(ropeDims()));
        }
        if (type.equals("deepseek")) {
            put("expert_weights_scale", GgufValue.f32(1)); // llama.cpp requires it
        }
        for (String needed : List.of("block_count", "context_length")) {
            if (!metadata.containsKey(key(needed))) {
                throw new ModelException(config.path(), "has no " + needed + ", which GGUF requires");
            }
        }
        if (!metadata.containsKey(key("attention.layer_norm_rms_epsilon"))
                && !metadata.containsKey(key("attention.layer_norm_epsilon"))) {
            throw new ModelException(config.path(), "has no epsilon for the norms, which GGUF requires");
        }
        if (metadata.containsKey(key("attention.sliding_window"))) {
            notes.add("llama.cpp has no sliding window in " + architecture
                    + ": its results differ for sequences longer than " + config.slidingWindow() + " tokens");
        }
    }

    /** llama.cpp computes MLA in the latent space: one KV head, whose values are its keys without the rotary part. */
    private void latentSettings() {
        int latent = config.size("kv_lora_rank");
        int ropeDim = config.size("qk_rope_head_dim");
        put("attention.head_count_kv", GgufValue.u32(1));
        put("attention.key_length", GgufValue.u32(latent + ropeDim));
        put("attention.value_length", GgufValue.u32(latent));
        put("attention.key_length_mla", GgufValue.u32(config.size("qk_nope_head_dim") + ropeDim));
        metadata.putIfAbsent(key("attention.q_lora_rank"), GgufValue.u32(0));
        metadata.putIfAbsent(key("expert_group_count"), GgufValue.u32(1));
        metadata.putIfAbsent(key("expert_group_used_count"), GgufValue.u32(1));
        put("expert_gating_func", GgufValue.u32(type.equals("deepseek_v3") ? SIGMOID : SOFTMAX));
    }

    /** Returns the number of rotary dimensions per head. */
    private int ropeDims() {
        if (latent()) {
            return config.size("qk_rope_head_dim");
        }
        int heads = config.size("num_attention_heads");
        int head = config.size("head_dim", config.size("kv_channels", config.size("hidden_size") / heads));
        return type.startsWith("phi") ? (int) (head * RotaryEmbedding.partialRotaryFactor(config)) : head;
    }

    private void rope() {
        JsonConfig rope = RotaryEmbedding.section(config);
        put("rope.freq_base", GgufValue.f32((float) RotaryEmbedding.theta(config)));
        String scaling = rope.string("rope_type", rope.string("type", "default"));
        switch (scaling) {
            case "default" -> {}
            case "linear" -> {
                put("rope.scaling.type", GgufValue.string("linear"));
                put("rope.scaling.factor", GgufValue.f32((float) rope.number("factor")));
            }
            case "yarn" -> yarn(rope);
            case "llama3" -> divisors("rope_freqs.weight", RotaryEmbedding.frequencyDivisors(config, ropeDims()));
            case "longrope", "su" -> {
                divisors("rope_factors_long.weight", floats(rope.numbers("long_factor")));
                divisors("rope_factors_short.weight", floats(rope.numbers("short_factor")));
                put("rope.scaling.type", GgufValue.string("longrope"));
                put("rope.scaling.attn_factor", GgufValue.f32(RotaryEmbedding.attentionFactor(config, ropeDims())));
            }
            default ->
                throw rope.invalid("rope_type", "default, linear, yarn, llama3 or longrope; GGUF supports no other");
        }
        if (List.of("yarn", "longrope", "su").contains(scaling) || type.equals("phi3")) {
            int made = config.size("original_max_position_embeddings", config.size("max_position_embeddings"));
            put(
                    "rope.scaling.original_context_length",
                    GgufValue.u32(rope.size("original_max_position_embeddings", made)));
        }
    }

    private void yarn(JsonConfig rope) {
        if (rope.has("attention_factor")) {
            throw rope.invalid("attention_factor", "unset: llama.cpp computes it");
        }
        if (rope.number("mscale", 1) != rope.number("mscale_all_dim", rope.number("mscale", 1))
                || rope.has("mscale") != rope.has("mscale_all_dim")) {
            throw rope.invalid("mscale", "the same as mscale_all_dim: GGUF has one value for both");
        }
        put("rope.scaling.type", GgufValue.string("yarn"));
        put("rope.scaling.factor", GgufValue.f32((float) rope.number("factor")));
        put("rope.scaling.yarn_beta_fast", GgufValue.f32((float) rope.number("beta_fast", 32)));
        put("rope.scaling.yarn_beta_slow", GgufValue.f32((float) rope.number("beta_slow", 1)));
        if (rope.has("mscale_all_dim")) {
            put("rope.scaling.yarn_log_multiplier", GgufValue.f32((float)
                    (0.1 * rope.number("mscale_all_dim")))); // llama.cpp stores a tenth of it
        }
    }

    private void divisors(String name, float... values) {
        contents.add(GgufTensor.of(
                name,
                BlockFormat.F32,
                Shape.of(values.length),
                (first, out, count) -> System.arraycopy(values, (int) first, out, 0, count)));
    }

    private static float[] floats(double... values) {
        float[] floats = new float[values.length];
        for (int i = 0; i < values.length; i++) {
            floats[i] = (float) values[i];
        }
        return floats;
    }

    private String key(String setting) {
        return architecture + "." + setting;
    }

    private void put(String setting, GgufValue value) {
        metadata.put(key(setting), value);
    }

    /** Adds the tensors by llama.cpp name; the matrices of experts are stacked. */
    private void tensors() {
        Map<String, List<String>> holders = new LinkedHashMap<>();
        tensors.keySet()
                .forEach(name -> holders.computeIfAbsent(GgufNames.tensor(name), key -> new ArrayList<>())
                        .add(name));
        holders.forEach((holder, names) -> {
            String first = names.getFirst();
            if (first.endsWith(".kv_b_proj.weight")) {
                splitLatent(first);
                return;
            }
            Shape shape = shape(first);
            boolean stacked = first.contains(".experts.");
            Shape whole = stacked ? Shape.of(names.size(), shape.dim(0), shape.dim(1)) : shape;
            BlockFormat format = isPlain(holder, whole) ? BlockFormat.F32 : formats.apply(first);
            contents.add(GgufTensor.of(
                    holder, format, whole, stacked ? stack(names, shape.size()) : reordered(first, shape)));
        });
    }

    /** Reads the experts of a stack one after another. */
    private FloatReader stack(List<String> names, long size) {
        List<FloatReader> experts = names.stream().map(values).toList();
        return (first, out, count) -> {
            for (int done = 0; done < count; ) {
                long at = (first + done) % size;
                int now = (int) Math.min(count - done, size - at);
                float[] part = new float[now];
                experts.get((int) ((first + done) / size)).read(at, part, now);
                System.arraycopy(part, 0, out, done, now);
                done += now;
            }
        };
    }

    /** Returns true for tensors that llama.cpp requires in float32, whatever the type of the others. */
    private static boolean isPlain(String name, Shape shape) {
        return shape.rank() == 1 || !name.endsWith(".weight") || name.contains(".ffn_gate_inp");
    }

    private Shape shape(String name) {
        return Objects.requireNonNull(tensors.get(name), name);
    }

    /** Reorders the rows of Llama's q and k projections. Rows move within a head, so whole heads are read. */
    private FloatReader reordered(String name, Shape shape) {
        boolean query = name.contains(".self_attn.q_proj.");
        if (!GgufNames.pairsAreAdjacent(architecture) || !query && !name.contains(".self_attn.k_proj.")) {
            return values.apply(name);
        }
        int heads = config.size("num_attention_heads");
        int width = shape.rank() == 1 ? 1 : Math.toIntExact(shape.last());
        int rows = Math.toIntExact(shape.dim(0)) / (query ? heads : config.size("num_key_value_heads", heads));
        long head = (long) rows * width;
        FloatReader stored = values.apply(name);
        return (first, out, count) -> {
            long begin = first / head * head;
            float[] whole = new float[Math.toIntExact(Math.ceilDiv(first + count, head) * head - begin)];
            stored.read(begin, whole, whole.length);
            System.arraycopy(GgufSource.interleaved(whole, width, rows), (int) (first - begin), out, 0, count);
        };
    }

    private void splitLatent(String name) {
        int heads = config.size("num_attention_heads");
        int latent = config.size("kv_lora_rank");
        int nopeDim = config.size("qk_nope_head_dim");
        int value = config.size("v_head_dim");
        String holder = GgufNames.tensor(name);
        BlockFormat format = formats.apply(name);
        Shape keys = Shape.of(heads, latent, nopeDim);
        Shape forValues = Shape.of(heads, value, latent);
        for (boolean forKeys : List.of(true, false)) {
            contents.add(GgufTensor.of(
                    holder.replace("attn_kv_b", forKeys ? "attn_k_b" : "attn_v_b"),
                    format,
                    forKeys ? keys : forValues,
                    whole(() -> {
                        float[] joined = new float[Math.toIntExact(shape(name).size())];
                        values.apply(name).read(0, joined, joined.length);
                        float[] k = new float[Math.toIntExact(keys.size())];
                        float[] v = new float[Math.toIntExact(forValues.size())];
                        GgufSource.split(joined, k, v, heads, nopeDim);
                        return forKeys ? k : v;
                    })));
        }
    }

    /** Returns a reader of a tensor that is computed as a whole for the first chunk and released after the last. */
    public static FloatReader whole(Supplier<float[]> made) {
        float[][] whole = {{}};
        return (first, out, count) -> {
            if (whole[0].length == 0) {
                whole[0] = made.get();
            }
            System.arraycopy(whole[0], Math.toIntExact(first), out, 0, count);
            if (first + count == whole[0].length) {
                whole[0] = new float[0];
            }
        };
    }
}
