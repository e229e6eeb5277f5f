package dev.starforge.model.gguf;

import dev.starforge.model.JsonConfig;
import java.util.HashSet;
import java.util.Set;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Converts the metadata of a GGUF file to {@code config.json}, as far as the file has the values. llama.cpp's converter
 * drops the sliding windows of StarCoder2 and Mistral, so models from such files have none. the exporter writes
 * them.
 */
public final class GgufConfig {
    private final GgufFile file;
    private final String prefix;
    private final ObjectNode config = new JsonMapper().createObjectNode();

    private GgufConfig(GgufFile file) {
        this.file = file;
        this.prefix = file.string("general.architecture") + ".";
    }

    public static JsonConfig of(GgufFile file) {
        return JsonConfig.of(file.path(), new GgufConfig(file).translate());
    }

    private ObjectNode translate() {
        String type = GgufNames.modelType(file);
        Set<String> read = new HashSet<>();
        for (GgufNames.ConfigKey setting : GgufNames.configKeys(type)) {
            if (read.add(setting.gguf())) {
                copy(config, setting.hf(), setting.gguf());
            }
        }
        config.put("model_type", type);
        config.put("vocab_size", file.tensor("token_embd.weight").shape().dim(0));
        config.put("tie_word_embeddings", !file.has("output.weight"));
        config.put(type.equals("starcoder2") ? "use_bias" : "attention_bias", file.has("blk.0.attn_q.bias"));
        config.put("mlp_bias", file.has("blk.0.ffn_down.bias"));
        config.put("intermediate_size", inner(type));
        if (type.equals("phi") || type.equals("phi3")) {
            int d = file.integer(prefix + "embedding_length") / file.integer(prefix + "attention.head_count");
            config.put("partial_rotary_factor", (double) file.integer(prefix + "rope.dimension_count", d) / d);
        }
        if (type.startsWith("deepseek_")) {
            if (file.integer(prefix + "attention.q_lora_rank", 0) == 0) {
                config.putNull("q_lora_rank"); // if absent, transformers uses a default rank
            }
            int keys = file.integer(prefix + "attention.key_length_mla", file.integer(prefix + "attention.key_length"));
            config.put("qk_nope_head_dim", keys - file.integer(prefix + "rope.dimension_count"));
            if (!config.has("v_head_dim")) {
                copy(config, "v_head_dim", "attention.value_length");
            }
            config.put(
                    "topk_method",
                    file.integer(prefix + "expert_group_count", 1) > 1 ? "group_limited_greedy" : "greedy");
        }
        if (type.equals("qwen3_moe")) {
            config.put("norm_topk_prob", true);
        }
        rope();
        return config;
    }

    /**
     * Returns the intermediate size from the tensor shapes, since some converters write another value into the
     * metadata.
     */
    private long inner(String type) {
        if (!file.has("blk.0.ffn_down.weight") && file.hasKey(prefix + "expert_feed_forward_length")) {
            return file.integer(prefix + "feed_forward_length", 1); // all layers are MoE layers
        }
        String block = file.has("blk.0.ffn_down.weight") ? "blk.0.ffn_down.weight" : "blk.0.ffn_down_exps.weight";
        long inner = file.tensor(block).shape().last();
        return type.equals("qwen") ? 2 * inner : inner;
    }

    private void rope() {
        ObjectNode rope = config.putObject("rope_parameters");
        copy(rope, "rope_theta", "rope.freq_base");
        boolean stretched = file.hasKey(prefix + "rope.scaling.factor") || file.hasKey(prefix + "rope.scale_linear");
        String scaling = file.string(prefix + "rope.scaling.type", stretched ? "linear" : "none");
        if (file.has("rope_freqs.weight")) {
            factors(rope, "rope_freqs.weight", "rope_freqs.weight");
            rope.put("attention_factor", 1.0);
        } else if (file.has("rope_factors_long.weight")) {
            factors(rope, "rope_factors_short.weight", "rope_factors_long.weight");
            copy(rope, "attention_factor", "rope.scaling.attn_factor");
        } else if (!scaling.equals("none")) {
            rope.put("rope_type", scaling);
            copy(rope, "factor", "rope.scale_linear");
            copy(rope, "factor", "rope.scaling.factor");
            copy(rope, "beta_fast", "rope.scaling.yarn_beta_fast");
            copy(rope, "beta_slow", "rope.scaling.yarn_beta_slow");
            if (file.hasKey(prefix + "rope.scaling.yarn_log_multiplier")) {
                double sharpness = 10 * file.number(prefix + "rope.scaling.yarn_log_multiplier");
                rope.put("mscale", sharpness);
                rope.put("mscale_all_dim", sharpness);
            }
        }
        copy(rope, "original_max_position_embeddings", "rope.scaling.original_context_length");
    }

    /** Reads frequency divisors. GGUF stores a table where Llama 3 computes them from four parameters. */
    private void factors(ObjectNode rope, String within, String beyond) {
        rope.put("rope_type", "longrope");
        list(rope.putArray("short_factor"), within);
        list(rope.putArray("long_factor"), beyond);
    }

    private void list(ArrayNode list, String tensor) {
        for (float value : file.readFloats(tensor)) {
            list.add(value);
        }
    }

    private void copy(ObjectNode to, String ours, String theirs) {
        switch (file.metadata().get(prefix + theirs)) {
            case GgufValue.IntValue whole -> to.put(ours, whole.value());
            case GgufValue.FloatValue real -> to.put(ours, real.value());
            case GgufValue.BoolValue flag -> to.put(ours, flag.value());
            case null -> {}
            default -> throw file.invalid(prefix + theirs, "one number for all layers");
        }
    }
}
