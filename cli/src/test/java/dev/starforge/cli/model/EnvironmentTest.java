package dev.starforge.cli.model;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cli.command.CliProcess;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class EnvironmentTest {
    private static final String SMALL = "--set model.pretrained_model=scratch --set model.hidden_size=64"
            + " --set model.num_hidden_layers=1 --set model.num_attention_heads=2 --set model.num_key_value_heads=1"
            + " --set model.vocab_size=320 --set model.context_window=64";

    @TempDir
    private Path folder;

    @Test
    void whoSetsAVariableOfAnotherProgramIsTold() {
        Environment environment = new Environment(
                Map.of(
                        "PYTORCH_ENABLE_MPS_FALLBACK", "1",
                        "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.0",
                        "PYTORCH_MPS_DEBUG", "1",
                        "METAL_DEVICE_WRAPPER_TYPE", "1",
                        "METAL_DEBUG_ERROR_MODE", "0",
                        "RUST_LOG", "debug",
                        "HOME", "/home/a"),
                Path.of("a"));
        assertThat(environment.unheeded())
                .satisfiesExactly(
                        note -> assertThat(note).startsWith("METAL_DEBUG_ERROR_MODE is ignored by Starforge"),
                        note -> assertThat(note).startsWith("METAL_DEVICE_WRAPPER_TYPE is ignored by Starforge"),
                        note -> assertThat(note)
                                .startsWith("PYTORCH_ENABLE_MPS_FALLBACK")
                                .contains("--no-fallback"),
                        note -> assertThat(note).startsWith("PYTORCH_MPS_DEBUG is ignored"),
                        note -> assertThat(note).startsWith("PYTORCH_MPS_HIGH_WATERMARK_RATIO"),
                        note -> assertThat(note).contains("--log-level"));
    }

    /** Variables are a process's, so each command gets one of its own. */
    @ParameterizedTest
    @ValueSource(strings = {"devices", "doctor --device cpu " + SMALL})
    void devicesAndTheDoctorSaySo(String command) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(CliProcess.command(List.of(command.split(" "))))
                .redirectErrorStream(true)
                .directory(folder.toFile());
        builder.environment().putAll(Map.of("PYTORCH_MPS_DEBUG", "1", "METAL_DEBUG_ERROR_MODE", "0"));
        Process process = builder.start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(said)
                .contains("PYTORCH_MPS_DEBUG is ignored")
                .contains("METAL_DEBUG_ERROR_MODE is ignored by Starforge, but read by Metal");
    }
}
