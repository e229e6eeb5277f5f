package dev.starforge.model.convert;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.model.arch.Architecture;
import dev.starforge.model.arch.Architectures;
import java.util.Map;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * Builds the {@code config.json} of HF transformers for a model read from a GGUF file. A table of rotary frequencies
 * becomes {@code longrope} with equal short and long factors, since the four parameters of Llama 3 cannot be recovered
 * from it.
 */
public final class HfConfig {
    private HfConfig() {}

    public static String of(JsonConfig config, String dtype, Map<String, Integer> tokens) {
        String type = config.string("model_type");
        Architecture architecture = Architectures.of(config);
        if (!architecture.hasHfClass()) {
            throw new ModelException(
                    config.path(),
                    type + ": HF transformers has no class for this architecture, so it cannot be written as a folder");
        }
        ObjectNode node = (ObjectNode) new JsonMapper().readTree(config.json());
        node.remove("rope_theta");
        if (config.has("kv_lora_rank")) {
            node.put("head_dim", config.size("qk_rope_head_dim"));
            node.put("num_key_value_heads", config.size("num_attention_heads"));
        }
        rope(node, config);
        if (node.path("sliding_window").asInt(0) == 0) {
            node.putNull("sliding_window");
        }
        node.putArray("architectures").add(architecture.hfClass());
        node.put("dtype", dtype);
        tokens.forEach(node::put);
        return node.toPrettyString();
    }

    /**
     * Completes the rope parameters: HF requires the original context length for longrope and reads the partial rotary
     * factor there.
     */
    private static void rope(ObjectNode node, JsonConfig config) {
        ObjectNode rope = (ObjectNode) node.path("rope_parameters");
        if (!rope.has("rope_type")) {
            rope.put("rope_type", "default");
        } else if (!rope.has("original_max_position_embeddings")) {
            rope.put("original_max_position_embeddings", config.size("max_position_embeddings"));
        }
        if (node.has("partial_rotary_factor")) {
            rope.set("partial_rotary_factor", node.get("partial_rotary_factor"));
        }
    }
}
