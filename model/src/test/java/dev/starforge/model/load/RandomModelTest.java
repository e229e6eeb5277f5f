package dev.starforge.model.load;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.Quantization;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.tensor.device.Selection;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

final class RandomModelTest {
    /** Published counts. */
    @ParameterizedTest
    @CsvSource({
        "deepseek-moe-16b, 16375728128",
        "llama-2-7b, 6738415616",
        "llama-2-13b, 13015864320",
        "llama-3-8b, 8030261248",
        "mistral-7b, 7241732096",
        "mixtral-8x7b, 46702792704",
        "qwen2.5-7b, 7615616512",
        "llama-3.2-1b, 1235814400",
        "llama-3.2-3b, 3212749824",
        "qwen2.5-coder-1.5b, 1543714304",
        "qwen2.5-coder-7b, 7615616512",
        "starcoder2-3b, 3030371328",
        "starcoder2-7b, 7173923840",
    })
    void shapesHaveThePublishedNumberOfParameters(String preset, long parameters) {
        long sum = RandomModel.of(preset, "F16").tensors().stream()
                .mapToLong(tensor -> tensor.shape().size())
                .sum();
        assertThat(sum).isEqualTo(parameters);
    }

    @Test
    void typesAreMixedAsLlamaQuantizeMixesThem() {
        Map<String, String> types = types("llama-3.2-1b", "Q4_K_M");
        assertThat(types.get("model.embed_tokens.weight")).isEqualTo("Q6_K");
        assertThat(types.get("model.layers.0.self_attn.v_proj.weight")).isEqualTo("Q6_K");
        assertThat(types.get("model.layers.2.mlp.down_proj.weight")).isEqualTo("Q4_K");
        assertThat(types.get("model.layers.4.mlp.down_proj.weight")).isEqualTo("Q6_K");
        assertThat(types.get("model.layers.0.self_attn.q_proj.weight")).isEqualTo("Q4_K");
        assertThat(types.get("model.norm.weight")).isEqualTo("F32");
        assertThat(types("llama-3.2-1b", "q4_0").get("model.embed_tokens.weight"))
                .isEqualTo("Q6_K");
        assertThat(types("llama-3.2-1b", "Q8_0").get("model.embed_tokens.weight"))
                .isEqualTo("Q8_0");
        assertThat(types("qwen2.5-coder-7b", "Q4_0"))
                .containsEntry("model.embed_tokens.weight", "Q4_0")
                .containsEntry("lm_head.weight", "Q6_K");
    }

    private static Map<String, String> types(String preset, String format) {
        return RandomModel.of(preset, format).tensors().stream()
                .collect(Collectors.toMap(ModelFiles.TensorInfo::name, ModelFiles.TensorInfo::dtype));
    }

    @Test
    void rowsDoNotDependOnTheChunksTheyAreReadIn() {
        String name = "model.layers.1.mlp.up_proj.weight";
        int row = (int) DType.Q4_0.bytes(256);
        byte[] whole = new byte[100 * row];
        RandomModel.of("tiny", "Q4_0").readRows(name, 0, ByteBuffer.wrap(whole));
        byte[] pieces = new byte[100 * row];
        RandomModel again = RandomModel.of("tiny", "Q4_0");
        again.readRows(name, 37, ByteBuffer.wrap(pieces, 37 * row, 63 * row));
        again.readRows(name, 0, ByteBuffer.wrap(pieces, 0, 37 * row));
        assertThat(pieces).isEqualTo(whole);
        long distinct = IntStream.range(0, 100)
                .mapToObj(r -> ByteBuffer.wrap(whole, r * row, row))
                .distinct()
                .count();
        assertThat(distinct).isGreaterThan(50);
    }

    /** On a device that holds no values, which is asked for every tensor, of the shape that the architecture wants. */
    @ParameterizedTest
    @MethodSource("presets")
    void everyTensorOfAPresetIsOneThatItsArchitectureHas(String preset) {
        try (Device device = Selection.choose("reference").backend().open(new DeviceOptions(0, 0, Path.of("")))) {
            for (String format : List.of("F16", "Q4_0", "Q4_K_M", "NF4_DOUBLE", "INT8_128", "GPTQ_128")) {
                try (Scope scope = new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope();
                        ModelFiles files = ModelFiles.random(preset, format)) {
                    Model model = files.load(scope, Precision.FLOAT32.withWeightsAsStored());
                    assertThat(model.blocks()).hasSize(files.spec().layers());
                    assertThat(files.spec().tensors(scope).keySet())
                            .containsExactlyInAnyOrderElementsOf(files.tensors().stream()
                                    .map(ModelFiles.TensorInfo::name)
                                    .toList());
                }
            }
        }
    }

    private static List<String> presets() {
        return ModelFiles.presets();
    }

    /** A row of 10944 or 1408 is no whole number of 256s, and the former none of 128s. */
    @Test
    void rowsThatAreNotWholeBlocksHaveATypeOfSmallerOnes() {
        String dense = "model.layers.0.mlp.down_proj.weight";
        String expert = "model.layers.5.mlp.experts.63.down_proj.weight";
        assertThat(types("deepseek-moe-16b", "Q4_K_M"))
                .containsEntry(dense, "Q8_0")
                .containsEntry(expert, "Q8_0")
                .containsEntry(expert.replace(".5.", ".6."), "Q5_0")
                .containsEntry(expert.replace("down", "up"), "Q4_K");
        assertThat(types("deepseek-moe-16b", "INT8_128"))
                .containsEntry(dense, "Q8_0")
                .containsEntry(expert, "INT8_128");
    }

    /** What a base in four or eight bits is stored as; rows that are not whole groups of 128 are blocks of 32 that share a scale. */
    @ParameterizedTest
    @ValueSource(strings = {"nf4", "nf4-double", "int8-64", "int8-128", "int8-256"})
    void noMatrixOfAPresetIsWidenedAsABase(String quantization) {
        for (String preset : ModelFiles.presets()) {
            for (ModelFiles.TensorInfo tensor : RandomModel.of(preset, "F16").tensors()) {
                assertThat(Quantization.parse(quantization)
                                .storage(tensor.shape().last())
                                .isQuantized())
                        .as(preset + " " + tensor)
                        .isTrue();
            }
        }
    }

    @Test
    void everyArchitectureOfAPresetLoads() {
        try (Device device = Selection.choose("reference").backend().open(new DeviceOptions(0, 0, Path.of("")));
                Scope scope = new Scope(device);
                ModelFiles files = ModelFiles.random("tiny", "Q4_K_M")) {
            Model model = files.load(scope, Precision.FLOAT32.withWeightsAsStored());
            assertThat(model.info().vocabSize()).isEqualTo(512);
        }
    }

    @Test
    void unknownPresetsAreNamedWithTheKnownOnes() {
        assertThatThrownBy(() -> ModelFiles.random("gpt-5", "Q4_0"))
                .isInstanceOf(ModelException.class)
                .hasMessageContainingAll(ModelFiles.presets().toArray(String[]::new));
        assertThatThrownBy(() -> ModelFiles.random("tiny", "Q4"))
                .isInstanceOf(ModelException.class)
                .hasMessageContainingAll(List.of("Q4_0", "Q4_K_M", "F16").toArray(String[]::new));
    }
}
