package dev.starforge.model.load;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.ModelException;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A model or adapter that does not fit is refused with the file, the key or tensor, and what was expected. */
final class ModelFilesTest {
    @TempDir
    Path folder;

    private final Device device =
            Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("target")));

    @BeforeEach
    void copyGolden() throws IOException {
        Path golden = Path.of("..", "golden", "models", "starcoder2");
        try (Stream<Path> files = Files.walk(golden)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                Path copy = folder.resolve(golden.relativize(file));
                Files.createDirectories(copy.getParent());
                Files.copy(file, copy);
            }
        }
    }

    private void load() {
        try (Scope scope = new Scope(device);
                ModelFiles model = ModelFiles.open(folder);
                LoraAdapter adapter = LoraAdapter.open(folder.resolve("adapter"), scope)) {
            model.load(scope, Precision.FLOAT32, adapter);
        }
    }

    @Test
    void loadingReportsProgress() {
        List<Integer> told = new ArrayList<>();
        try (Scope scope = new Scope(device);
                ModelFiles model = ModelFiles.open(folder)) {
            model.onLoadProgress(told::add);
            model.load(scope, Precision.FLOAT32);
        }
        assertThat(told).isSorted().hasSizeGreaterThan(10).endsWith(100);
        assertThat(told.getFirst()).isLessThan(50);
    }

    @Test
    void aGoodFolderLoads() {
        load();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "config.json | \"starcoder2\" | \"gpt9\" | starcoder2, got \"gpt9\"",
                "config.json | \"hidden_size\": 64 | \"hidden_size\": -64 | hidden_size: expected a number above 0",
                "config.json | \"hidden_size\": 64 | \"hidden_size\": \"64\" | hidden_size: expected a whole number",
                "config.json | \"hidden_size\": 64 | \"hidden_sise\": 64 | hidden_size: expected a whole number, got"
                        + " nothing",
                "config.json | \"hidden_size\": 64 | \"hidden_size\": 128 | asks for [640, 128], the file has [640,"
                        + " 64]",
                "config.json | \"num_hidden_layers\": 2 | \"num_hidden_layers\": 3 | has no tensor model.layers.2",
                "config.json | gelu_pytorch_tanh | relu | hidden_act: expected gelu_pytorch_tanh, got \"relu\"",
                "config.json | \"rope_type\": \"default\" | \"rope_type\": \"spiral\" | rope_type: expected default,"
                        + " linear",
                "config.json | \"norm_epsilon\": 1e-05 | \"norm_epsilon\": 1e999 | norm_epsilon: expected a number",
                "config.json | { | { { | is not JSON",
                "config.json | { | {\"quantization_config\": {\"bits\": 8}, | quantization_config.quant_method:"
                        + " expected a string",
                "adapter/adapter_config.json | \"use_dora\": false | \"use_dora\": true | has no tensor"
                        + " base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
                "adapter/adapter_config.json | \"peft_type\": \"LORA\" | \"peft_type\": \"IA3\" | peft_type: expected"
                        + " LORA",
                "adapter/adapter_config.json | \"init_lora_weights\": true | \"init_lora_weights\": \"pissa\" |"
                        + " init_lora_weights",
                "adapter/adapter_config.json | \"bias\": \"none\" | \"bias\": \"all\" | bias: expected none",
                "adapter/adapter_config.json | \"r\": 4 | \"r\": 8 | asks for [8, 64], the file has [4, 64]",
            })
    void aWrongSettingIsRefused(String file, String from, String to, String message) throws IOException {
        Path path = folder.resolve(file);
        String text = Files.readString(path);
        assertThat(text).contains(from);
        int at = text.indexOf(from);
        Files.writeString(path, text.substring(0, at) + to + text.substring(at + from.length()));
        assertThatThrownBy(this::load).isInstanceOf(ModelException.class).hasMessageContaining(message);
    }

    @Test
    void anUpdateThatNoProjectionTakesIsRefused() throws IOException {
        rename(folder.resolve("adapter/adapter_model.safetensors"), "layers.1.mlp.c_fc", "layers.9.mlp.c_fc");
        assertThatThrownBy(this::load)
                .hasMessageContaining("no projection of this model uses base_model.model.model.layers.9.mlp.c_fc");
    }

    @Test
    void anIncompleteUpdateIsRefused() throws IOException {
        rename(folder.resolve("adapter/adapter_model.safetensors"), "1.mlp.c_fc.lora_A", "9.mlp.c_fc.lora_A");
        assertThatThrownBy(this::load).hasMessageContaining("has no tensor").hasMessageContaining("1.mlp.c_fc.lora_A");
    }

    /** Replaces text of the same length inside the header. */
    private static void rename(Path file, String from, String to) throws IOException {
        String bytes = Files.readString(file, StandardCharsets.ISO_8859_1);
        assertThat(bytes).contains(from);
        Files.writeString(file, bytes.replace(from, to), StandardCharsets.ISO_8859_1);
    }

    @Test
    void anUnknownGgufArchitectureIsNamedWithTheKnownOnes() throws IOException {
        Path gguf = folder.resolve("model.gguf");
        rename(
                gguf,
                "general.architecture\b\0\0\0\n\0\0\0\0\0\0\0starcoder2",
                "general.architecture\b\0\0\0\n\0\0\0\0\0\0\0xstarcode2");
        assertThatThrownBy(() -> ModelFiles.open(gguf))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining(
                        "general.architecture: expected one of deepseek, deepseek_v2, deepseek_v3, llama");
    }

    @Test
    void endOfTextMayBeOneOrSeveral() throws IOException {
        assertThat(endOfText()).containsExactly(0);
        Files.writeString(folder.resolve("generation_config.json"), "{\"eos_token_id\": [3, 1]}");
        assertThat(endOfText()).containsExactly(1, 3);
        Files.writeString(folder.resolve("generation_config.json"), "{}");
        assertThat(endOfText()).as("what config.json says").containsExactly(0);
    }

    private Set<Integer> endOfText() {
        try (ModelFiles model = ModelFiles.open(folder)) {
            return model.eosTokenIds();
        }
    }
}
