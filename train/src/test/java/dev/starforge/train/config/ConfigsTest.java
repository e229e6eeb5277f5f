package dev.starforge.train.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.config.ConfigException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The files in configs, and the one that the first design printed. */
final class ConfigsTest {
    private static final Path CONFIGS = Path.of("..", "configs");

    /** As printed in "StarCoder2-3B MPS-Optimized Training System". */
    private static final String PRINTED = """
        model:
          pretrained_model: "bigcode/starcoder2-3b"
          trust_remote_code: true
          mps_prefer_fp16: true  # Use fp16 on MPS for memory savings

        quantization:
          load_in_4bit: true  # On CUDA: 4-bit; on MPS: int8
          lora_enabled: true
          lora_rank: 32
          lora_alpha: 64
          lora_dropout: 0.05
         \s
          # MPS-specific (optional overrides)
          mps_quant_dtype: "int8"
          mps_group_size: 128
          mps_compute_dtype: "float16"
         \s
          # Dataset paths
          train_path: "data_enhanced/dataset_enhanced/training_data_enhanced_train.json"
          val_path: "data_enhanced/dataset_enhanced/training_data_enhanced_val.json"
          test_path: "data_enhanced/dataset_enhanced/training_data_enhanced_test.json"

        optimization:
          batch_size: 2
          gradient_accumulation_steps: 8  # Effective batch = 16
          learning_rate: 2.0e-4
          mixed_precision: "fp16"  # or "bf16"
          gradient_checkpointing: true  # Now enabled on MPS

        training:
          num_epochs: 3
          seed: 42

        output:
          output_dir: "models/starcoder2-mps-optimized"
        """;

    @TempDir
    Path folder;

    static List<Path> shipped() throws IOException {
        try (Stream<Path> files = Files.list(CONFIGS)) {
            return files.sorted().toList();
        }
    }

    @ParameterizedTest
    @MethodSource("shipped")
    void everyShippedFileLoads(Path file) throws IOException {
        RunConfig config = RunConfig.read(file);
        assertThat(config.isSet(Keys.MODEL)).isTrue();
        assertThat(config.isSet(Keys.DATASET)).isTrue();
        assertThat(Files.readString(Path.of("..", "docs", "guides", "README.md")))
                .as("the page that lists them")
                .contains("`configs/" + file.getFileName() + "`");
    }

    @Test
    void thePrintedUniversalConfigLoadsButForOneLine() throws IOException {
        Path file = Files.writeString(folder.resolve("universal.yaml"), PRINTED);
        assertThatThrownBy(() -> RunConfig.read(file))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("universal.yaml:3: key model.trust_remote_code: true is refused: "
                        + "code that comes with a model is never executed");

        Files.writeString(file, PRINTED.replace("  trust_remote_code: true\n", ""));
        RunConfig config = RunConfig.read(file);
        assertThat(config.model()).isEqualTo("bigcode/starcoder2-3b");
        assertThat(config.get(Keys.METAL_PRECISION)).isEqualTo("fp16");
        assertThat(config.get(Keys.FOUR_BIT)).isTrue();
        assertThat(config.get(Keys.RANK)).isEqualTo(32);
        assertThat(config.get(Keys.ALPHA)).isEqualTo(64);
        assertThat(config.get(Keys.METAL_STORAGE)).isEqualTo("int8");
        assertThat(config.get(Keys.GROUP)).isEqualTo(128);
        assertThat(config.get(Keys.TRAIN)).endsWith("training_data_enhanced_train.json");
        assertThat(config.get(Keys.VALIDATION)).endsWith("training_data_enhanced_val.json");
        assertThat(config.get(Keys.TEST)).endsWith("training_data_enhanced_test.json");
        assertThat(config.get(Keys.BATCH) * config.get(Keys.ACCUMULATION)).isEqualTo(16);
        assertThat(config.get(Keys.RATE)).isEqualTo(2e-4);
        assertThat(config.get(Keys.MIXED)).isEqualTo("fp16");
        assertThat(config.get(Keys.CHECKPOINTING)).isEqualTo("true");
        assertThat(config.get(Keys.EPOCHS)).isEqualTo(3);
        assertThat(config.get(Keys.SEED)).isEqualTo(42);
        assertThat(config.output()).hasToString("models/starcoder2-mps-optimized");
    }
}
