package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.file.SafetensorsFile.SafetensorsData;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The first Qwen has no golden: HF's library does not know it. Up to its training length it is a Qwen2 with other names, one
 * matrix for queries, keys and values, and an MLP whose width the config counts twice; and Qwen2 has a golden. Which of w1 and
 * w2 is the gate is as Qwen's own code has it: {@code c_proj(w1(x) * silu(w2(x)))}.
 */
final class QwenTest {
    private static final int LAYERS = 2;
    private static final int VOCABULARY = 48;
    private static final int C = 64;
    private static final int INNER = 96;
    private static final String QWEN = """
        {"model_type": "qwen", "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2,
         "num_attention_heads": 4, "kv_channels": 16, "vocab_size": 48, "seq_length": 64,
         "max_position_embeddings": 128, "layer_norm_epsilon": 1e-5, "rotary_emb_base": 500000, "rotary_pct": 1.0,
         "no_bias": true, "use_dynamic_ntk": true, "use_logn_attn": true, "scale_attn_weights": true,
         "tie_word_embeddings": false}
        """;
    private static final String QWEN2 = """
        {"model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 48, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-5, "rope_theta": 500000, "tie_word_embeddings": false}
        """;
    private static final int[] IDS = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};

    @TempDir
    Path folder;

    private final Random random = new Random(7);
    private final List<SafetensorsData> qwen = new ArrayList<>();
    private final List<SafetensorsData> qwen2 = new ArrayList<>();

    private float[] normal(int count) {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) (0.1 * random.nextGaussian());
        }
        return values;
    }

    /** One tensor under the names that both have for it. */
    private void both(String first, String second, Shape shape) {
        float[] values = normal((int) shape.size());
        qwen.add(SafetensorsData.of(first, shape, values));
        qwen2.add(SafetensorsData.of(second, shape, values));
    }

    private void layer(int layer) {
        String first = "transformer.h." + layer;
        String second = "model.layers." + layer;
        both(first + ".ln_1.weight", second + ".input_layernorm.weight", Shape.of(C));
        both(first + ".ln_2.weight", second + ".post_attention_layernorm.weight", Shape.of(C));
        float[] weight = normal(3 * C * C);
        float[] bias = normal(3 * C);
        qwen.add(SafetensorsData.of(first + ".attn.c_attn.weight", Shape.of(3 * C, C), weight));
        qwen.add(SafetensorsData.of(first + ".attn.c_attn.bias", Shape.of(3 * C), bias));
        List<String> parts = List.of("q_proj", "k_proj", "v_proj");
        for (int i = 0; i < parts.size(); i++) {
            String path = second + ".self_attn." + parts.get(i);
            qwen2.add(SafetensorsData.of(
                    path + ".weight", Shape.of(C, C), Arrays.copyOfRange(weight, i * C * C, (i + 1) * C * C)));
            qwen2.add(SafetensorsData.of(path + ".bias", Shape.of(C), Arrays.copyOfRange(bias, i * C, (i + 1) * C)));
        }
        both(first + ".attn.c_proj.weight", second + ".self_attn.o_proj.weight", Shape.of(C, C));
        both(first + ".mlp.w1.weight", second + ".mlp.up_proj.weight", Shape.of(INNER, C));
        both(first + ".mlp.w2.weight", second + ".mlp.gate_proj.weight", Shape.of(INNER, C));
        both(first + ".mlp.c_proj.weight", second + ".mlp.down_proj.weight", Shape.of(C, INNER));
    }

    private static Path write(Path folder, String config, List<SafetensorsData> entries) throws IOException {
        Files.createDirectories(folder);
        SafetensorsFile.write(folder.resolve("model.safetensors"), entries);
        return Files.writeString(folder.resolve("config.json"), config).getParent();
    }

    private static float[] logits(Path folder) {
        try (Device device = Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("target")));
                ModelFiles files = ModelFiles.open(folder);
                Scope weights = new Scope(device);
                Scope step = new Scope(device)) {
            Model model = files.load(weights, Precision.FLOAT32, new ArrayList<>());
            assertThat(model.info().contextLength())
                    .as("what it was trained on")
                    .isEqualTo(64);
            return device.floats(model.forward(
                    device.ops(step, Precision.FLOAT32, Fallback.FORBIDDEN),
                    Batches.packed(model, step, List.of(IDS)),
                    KvCache.NONE));
        }
    }

    @Test
    void matchesQwen2WithSplitMatrix() throws IOException {
        both("transformer.wte.weight", "model.embed_tokens.weight", Shape.of(VOCABULARY, C));
        both("transformer.ln_f.weight", "model.norm.weight", Shape.of(C));
        both("lm_head.weight", "lm_head.weight", Shape.of(VOCABULARY, C));
        for (int layer = 0; layer < LAYERS; layer++) {
            layer(layer);
        }
        float[] ours = logits(write(folder.resolve("qwen"), QWEN, qwen));
        float[] theirs = logits(write(folder.resolve("qwen2"), QWEN2, qwen2));
        assertThat(ours).hasSize(IDS.length * VOCABULARY);
        for (int i = 0; i < ours.length; i++) {
            assertThat(ours[i]).isCloseTo(theirs[i], within(2e-6f));
        }
    }
}
