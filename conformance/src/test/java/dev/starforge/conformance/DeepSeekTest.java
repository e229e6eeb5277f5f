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
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The first DeepSeek has no golden: HF's library does not know it. With experts that are all alike it is a Llama whose MLP is an
 * expert and the shared ones side by side, and Llama has one. Which experts a token takes is what its successors' goldens hold.
 */
final class DeepSeekTest {
    private static final String COMMON = """
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 48, "max_position_embeddings": 64, "rms_norm_eps": 1e-6}
        """;
    private static final String DEEPSEEK = """
        {"model_type": "deepseek", "first_k_dense_replace": 1, "n_routed_experts": 4, "num_experts_per_tok": 2,
         "moe_intermediate_size": 32, "n_shared_experts": 2, "norm_topk_prob": %b,
        """ + COMMON;
    private static final int[] IDS = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
    private static final int C = 64;
    private static final int EXPERT = 32;
    private static final int SHARED = 64;

    @TempDir
    Path folder;

    private final Random random = new Random(7);

    private float[] normal(int count) {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) (0.1 * random.nextGaussian());
        }
        return values;
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
            return device.floats(model.forward(
                    device.ops(step, Precision.FLOAT32, Fallback.FORBIDDEN),
                    Batches.packed(model, step, List.of(IDS)),
                    KvCache.NONE));
        }
    }

    private List<SafetensorsData> shared() {
        List<SafetensorsData> entries = new ArrayList<>();
        entries.add(SafetensorsData.of("model.embed_tokens.weight", Shape.of(48, C), normal(48 * C)));
        entries.add(SafetensorsData.of("lm_head.weight", Shape.of(48, C), normal(48 * C)));
        entries.add(SafetensorsData.of("model.norm.weight", Shape.of(C), normal(C)));
        for (int layer = 0; layer < 2; layer++) {
            String path = "model.layers." + layer;
            entries.add(SafetensorsData.of(path + ".input_layernorm.weight", Shape.of(C), normal(C)));
            entries.add(SafetensorsData.of(path + ".post_attention_layernorm.weight", Shape.of(C), normal(C)));
            entries.add(SafetensorsData.of(path + ".self_attn.q_proj.weight", Shape.of(C, C), normal(C * C)));
            entries.add(SafetensorsData.of(path + ".self_attn.k_proj.weight", Shape.of(C / 2, C), normal(C / 2 * C)));
            entries.add(SafetensorsData.of(path + ".self_attn.v_proj.weight", Shape.of(C / 2, C), normal(C / 2 * C)));
            entries.add(SafetensorsData.of(path + ".self_attn.o_proj.weight", Shape.of(C, C), normal(C * C)));
        }
        int inner = EXPERT + SHARED;
        entries.add(SafetensorsData.of("model.layers.0.mlp.gate_proj.weight", Shape.of(inner, C), normal(inner * C)));
        entries.add(SafetensorsData.of("model.layers.0.mlp.up_proj.weight", Shape.of(inner, C), normal(inner * C)));
        entries.add(SafetensorsData.of("model.layers.0.mlp.down_proj.weight", Shape.of(C, inner), normal(C * inner)));
        return entries;
    }

    private static float[] beside(float[] left, int leftWidth, float scale, float[] right, int rightWidth) {
        int width = leftWidth + rightWidth;
        float[] both = new float[C * width];
        for (int row = 0; row < C; row++) {
            for (int i = 0; i < leftWidth; i++) {
                both[row * width + i] = scale * left[row * leftWidth + i];
            }
            System.arraycopy(right, row * rightWidth, both, row * width + leftWidth, rightWidth);
        }
        return both;
    }

    private static float[] below(float[] first, float[] second) {
        float[] both = new float[first.length + second.length];
        System.arraycopy(first, 0, both, 0, first.length);
        System.arraycopy(second, 0, both, first.length, second.length);
        return both;
    }

    /** Shares of two of four experts that nobody prefers are a quarter each, or, made to sum to one, a half. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void matchesLlamaWithIdenticalExperts(boolean normalized) throws IOException {
        List<SafetensorsData> deepseek = shared();
        List<SafetensorsData> llama = new ArrayList<>(deepseek);
        String mlp = "model.layers.1.mlp.";
        float[] router = normalized ? normal(4 * C) : new float[4 * C];
        deepseek.add(SafetensorsData.of(mlp + "gate.weight", Shape.of(4, C), router));
        float[] gate = normal(EXPERT * C);
        float[] up = normal(EXPERT * C);
        float[] down = normal(C * EXPERT);
        for (int expert = 0; expert < 4; expert++) {
            String path = mlp + "experts." + expert + ".";
            deepseek.add(SafetensorsData.of(path + "gate_proj.weight", Shape.of(EXPERT, C), gate));
            deepseek.add(SafetensorsData.of(path + "up_proj.weight", Shape.of(EXPERT, C), up));
            deepseek.add(SafetensorsData.of(path + "down_proj.weight", Shape.of(C, EXPERT), down));
        }
        float[] sharedGate = normal(SHARED * C);
        float[] sharedUp = normal(SHARED * C);
        float[] sharedDown = normal(C * SHARED);
        deepseek.add(SafetensorsData.of(mlp + "shared_experts.gate_proj.weight", Shape.of(SHARED, C), sharedGate));
        deepseek.add(SafetensorsData.of(mlp + "shared_experts.up_proj.weight", Shape.of(SHARED, C), sharedUp));
        deepseek.add(SafetensorsData.of(mlp + "shared_experts.down_proj.weight", Shape.of(C, SHARED), sharedDown));
        int inner = EXPERT + SHARED;
        llama.add(SafetensorsData.of(mlp + "gate_proj.weight", Shape.of(inner, C), below(gate, sharedGate)));
        llama.add(SafetensorsData.of(mlp + "up_proj.weight", Shape.of(inner, C), below(up, sharedUp)));
        llama.add(SafetensorsData.of(
                mlp + "down_proj.weight",
                Shape.of(C, inner),
                beside(down, EXPERT, normalized ? 1 : 0.5f, sharedDown, SHARED)));
        float[] ours = logits(write(folder.resolve("deepseek"), DEEPSEEK.formatted(normalized), deepseek));
        float[] theirs = logits(write(folder.resolve("llama"), "{\"model_type\": \"llama\", " + COMMON, llama));
        assertThat(ours).hasSize(theirs.length);
        for (int i = 0; i < ours.length; i++) {
            assertThat(ours[i]).isCloseTo(theirs[i], within(2e-6f));
        }
    }
}
