package dev.starforge.model.gguf;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Tables from HF names to llama.cpp names for architectures, config keys and tensors. {@link GgufConfig} and
 * {@link GgufSource} use them for reading, the exporter for writing. A new architecture adds rows for names that
 * no other architecture has. Names that are equal on both sides have no row.
 */
public final class GgufNames {
    /**
     * An architecture whose name in llama.cpp differs.
     *
     * @param is distinguishes architectures with the same llama.cpp name; the first match wins
     */
    private record ArchitectureName(String gguf, String hf, Predicate<GgufFile> is) {}

    private static final List<ArchitectureName> ARCHITECTURES = List.of(
            new ArchitectureName("llama", "mixtral", file -> file.integer("llama.expert_count", 0) > 0),
            new ArchitectureName("llama", "mistral", file -> file.integer("llama.attention.sliding_window", 0) > 0),
            new ArchitectureName("deepseek2", "deepseek_v3", GgufNames::hasBalancingBias),
            new ArchitectureName("deepseek2", "deepseek_v2", file -> true),
            new ArchitectureName("phi2", "phi", file -> true),
            new ArchitectureName("qwen2moe", "qwen2_moe", file -> true),
            new ArchitectureName("qwen3moe", "qwen3_moe", file -> true));

    /** The type of a value in the metadata; llama.cpp accepts no other type. */
    public enum ConfigType {
        INT,
        FLOAT,
        BOOL
    }

    /**
     * A key of {@code config.json} and the corresponding metadata key, without the architecture prefix.
     *
     * @param only the architectures that have the key, by HF name; empty for all
     */
    public record ConfigKey(String hf, String gguf, ConfigType kind, Set<String> only) {
        static ConfigKey of(String hf, String gguf, ConfigType kind, String... only) {
            return new ConfigKey(hf, gguf, kind, Set.of(only));
        }
    }

    /** If HF has several keys for one value, the first row that applies to the architecture wins. */
    private static final List<ConfigKey> SETTINGS = List.of(
            ConfigKey.of("num_hidden_layers", "block_count", ConfigType.INT),
            ConfigKey.of("max_position_embeddings", "context_length", ConfigType.INT),
            ConfigKey.of("hidden_size", "embedding_length", ConfigType.INT),
            ConfigKey.of("num_attention_heads", "attention.head_count", ConfigType.INT),
            ConfigKey.of("num_key_value_heads", "attention.head_count_kv", ConfigType.INT),
            ConfigKey.of("kv_channels", "attention.key_length", ConfigType.INT, "qwen"),
            ConfigKey.of("head_dim", "attention.key_length", ConfigType.INT),
            ConfigKey.of("layer_norm_epsilon", "attention.layer_norm_rms_epsilon", ConfigType.FLOAT, "qwen"),
            ConfigKey.of("rms_norm_eps", "attention.layer_norm_rms_epsilon", ConfigType.FLOAT),
            ConfigKey.of("norm_epsilon", "attention.layer_norm_epsilon", ConfigType.FLOAT, "starcoder2"),
            ConfigKey.of("layer_norm_eps", "attention.layer_norm_epsilon", ConfigType.FLOAT, "phi"),
            ConfigKey.of(
                    "sliding_window",
                    "attention.sliding_window",
                    ConfigType.INT,
                    "llama",
                    "mistral",
                    "mixtral",
                    "phi3",
                    "starcoder2"),
            ConfigKey.of("n_routed_experts", "expert_count", ConfigType.INT, "deepseek", "deepseek_v2", "deepseek_v3"),
            ConfigKey.of("num_experts", "expert_count", ConfigType.INT, "qwen2_moe", "qwen3_moe"),
            ConfigKey.of("num_local_experts", "expert_count", ConfigType.INT, "mixtral", "qwen2_moe", "qwen3_moe"),
            ConfigKey.of(
                    "num_experts_per_tok",
                    "expert_used_count",
                    ConfigType.INT,
                    "mixtral",
                    "qwen2_moe",
                    "qwen3_moe",
                    "deepseek",
                    "deepseek_v2",
                    "deepseek_v3"),
            ConfigKey.of("n_group", "expert_group_count", ConfigType.INT, "deepseek_v2", "deepseek_v3"),
            ConfigKey.of("topk_group", "expert_group_used_count", ConfigType.INT, "deepseek_v2", "deepseek_v3"),
            ConfigKey.of("moe_intermediate_size", "expert_feed_forward_length", ConfigType.INT),
            ConfigKey.of("shared_expert_intermediate_size", "expert_shared_feed_forward_length", ConfigType.INT),
            ConfigKey.of("n_shared_experts", "expert_shared_count", ConfigType.INT),
            ConfigKey.of("routed_scaling_factor", "expert_weights_scale", ConfigType.FLOAT),
            ConfigKey.of("norm_topk_prob", "expert_weights_norm", ConfigType.BOOL),
            ConfigKey.of("first_k_dense_replace", "leading_dense_block_count", ConfigType.INT),
            ConfigKey.of("q_lora_rank", "attention.q_lora_rank", ConfigType.INT),
            ConfigKey.of("kv_lora_rank", "attention.kv_lora_rank", ConfigType.INT),
            ConfigKey.of("qk_rope_head_dim", "rope.dimension_count", ConfigType.INT, "deepseek_v2", "deepseek_v3"),
            ConfigKey.of("v_head_dim", "attention.value_length_mla", ConfigType.INT),
            ConfigKey.of("rope_theta", "rope.freq_base", ConfigType.FLOAT));

    private static final Pattern LAYER = Pattern.compile("(?:model\\.layers|transformer\\.h)\\.(\\d+)\\.(.*)");
    private static final Pattern EXPERT =
            Pattern.compile("(?:mlp|block_sparse_moe)\\.experts\\.(\\d+)\\.(\\w+)\\.weight");

    /** Tensors outside the blocks. */
    private static final Map<String, String> OUTSIDE = Map.of(
            "model.embed_tokens", "token_embd",
            "transformer.wte", "token_embd",
            "model.norm", "output_norm",
            "model.final_layernorm", "output_norm",
            "transformer.ln_f", "output_norm",
            "lm_head", "output");

    /** Tensors of a block. */
    private static final Map<String, String> INSIDE = Map.ofEntries(
            Map.entry("input_layernorm", "attn_norm"),
            Map.entry("ln_1", "attn_norm"),
            Map.entry("post_attention_layernorm", "ffn_norm"),
            Map.entry("ln_2", "ffn_norm"),
            Map.entry("self_attn.q_proj", "attn_q"),
            Map.entry("self_attn.k_proj", "attn_k"),
            Map.entry("self_attn.v_proj", "attn_v"),
            Map.entry("self_attn.qkv_proj", "attn_qkv"),
            Map.entry("attn.c_attn", "attn_qkv"),
            Map.entry("self_attn.o_proj", "attn_output"),
            Map.entry("self_attn.dense", "attn_output"),
            Map.entry("attn.c_proj", "attn_output"),
            Map.entry("self_attn.q_norm", "attn_q_norm"),
            Map.entry("self_attn.k_norm", "attn_k_norm"),
            Map.entry("self_attn.q_a_proj", "attn_q_a"),
            Map.entry("self_attn.q_a_layernorm", "attn_q_a_norm"),
            Map.entry("self_attn.q_b_proj", "attn_q_b"),
            Map.entry("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"),
            Map.entry("self_attn.kv_a_layernorm", "attn_kv_a_norm"),
            Map.entry("self_attn.kv_b_proj", "attn_kv_b"),
            Map.entry("mlp.gate_proj", "ffn_gate"),
            Map.entry("mlp.w2", "ffn_gate"),
            Map.entry("mlp.up_proj", "ffn_up"),
            Map.entry("mlp.w1", "ffn_up"),
            Map.entry("mlp.c_fc", "ffn_up"),
            Map.entry("mlp.fc1", "ffn_up"),
            Map.entry("mlp.gate_up_proj", "ffn_up"),
            Map.entry("mlp.down_proj", "ffn_down"),
            Map.entry("mlp.c_proj", "ffn_down"),
            Map.entry("mlp.fc2", "ffn_down"),
            Map.entry("mlp.gate", "ffn_gate_inp"),
            Map.entry("block_sparse_moe.gate", "ffn_gate_inp"),
            Map.entry("mlp.shared_expert_gate", "ffn_gate_inp_shexp"),
            Map.entry("mlp.shared_expert.gate_proj", "ffn_gate_shexp"),
            Map.entry("mlp.shared_expert.up_proj", "ffn_up_shexp"),
            Map.entry("mlp.shared_expert.down_proj", "ffn_down_shexp"),
            Map.entry("mlp.shared_experts.gate_proj", "ffn_gate_shexp"),
            Map.entry("mlp.shared_experts.up_proj", "ffn_up_shexp"),
            Map.entry("mlp.shared_experts.down_proj", "ffn_down_shexp"));

    /** The matrices of an expert. llama.cpp stacks those of all experts of a block. */
    private static final Map<String, String> EXPERTS = Map.of(
            "gate_proj", "ffn_gate_exps",
            "w1", "ffn_gate_exps",
            "up_proj", "ffn_up_exps",
            "w3", "ffn_up_exps",
            "down_proj", "ffn_down_exps",
            "w2", "ffn_down_exps");

    private GgufNames() {}

    /** Returns HF's name for the architecture of a file. */
    public static String modelType(GgufFile file) {
        String name = file.string("general.architecture");
        return ARCHITECTURES.stream()
                .filter(row -> row.gguf().equals(name) && row.is().test(file))
                .map(ArchitectureName::hf)
                .findFirst()
                .orElse(name);
    }

    /** Returns llama.cpp's name for an architecture. */
    public static String architecture(String modelType) {
        return ARCHITECTURES.stream()
                .filter(row -> row.hf().equals(modelType))
                .map(ArchitectureName::gguf)
                .findFirst()
                .orElse(modelType);
    }

    private static boolean hasBalancingBias(GgufFile file) {
        return file.tensors().keySet().stream().anyMatch(name -> name.endsWith(".exp_probs_b.bias"));
    }

    /**
     * Returns true if llama.cpp stores the two dimensions of a rotary pair adjacently for an architecture (llama.cpp's
     * name).
     */
    public static boolean pairsAreAdjacent(String architecture) {
        return architecture.equals("llama") || architecture.equals("deepseek");
    }

    /** Returns the config keys of an architecture. */
    public static List<ConfigKey> configKeys(String modelType) {
        return SETTINGS.stream()
                .filter(setting -> setting.only().isEmpty() || setting.only().contains(modelType))
                .toList();
    }

    /** Returns llama.cpp's name for a tensor; an unknown name is returned unchanged. */
    public static String tensor(String name) {
        int dot = name.lastIndexOf('.');
        String ending = name.substring(dot);
        Matcher layer = LAYER.matcher(name.substring(0, dot));
        if (!layer.matches()) {
            return OUTSIDE.getOrDefault(name.substring(0, dot), name.substring(0, dot)) + ending;
        }
        String block = "blk." + layer.group(1) + ".";
        Matcher expert = expert(name);
        if (expert.matches()) {
            return block + EXPERTS.getOrDefault(expert.group(2), expert.group(2)) + ending;
        }
        return ending.equals(".e_score_correction_bias")
                ? block + "exp_probs_b.bias"
                : block + INSIDE.getOrDefault(layer.group(2), layer.group(2)) + ending;
    }

    /** Matches the name of an expert's matrix; the groups are the expert's index and the matrix name. */
    static Matcher expert(String name) {
        Matcher layer = LAYER.matcher(name);
        return EXPERT.matcher(layer.matches() ? layer.group(2) : "");
    }
}
