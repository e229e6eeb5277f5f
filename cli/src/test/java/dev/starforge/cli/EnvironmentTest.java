package dev.starforge.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;

final class EnvironmentTest {
    @Test
    void whoSetsAVariableOfAnotherProgramIsTold() {
        Environment environment = new Environment(
                Map.of(
                        "PYTORCH_ENABLE_MPS_FALLBACK", "1",
                        "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.0",
                        "METAL_DEVICE_WRAPPER_TYPE", "1",
                        "RUST_LOG", "debug",
                        "HOME", "/home/a"),
                Path.of("a"));
        assertThat(environment.unheeded())
                .satisfiesExactly(
                        note -> assertThat(note).startsWith("METAL_DEVICE_WRAPPER_TYPE is set: Apple's Metal reads it"),
                        note -> assertThat(note)
                                .startsWith("PYTORCH_ENABLE_MPS_FALLBACK")
                                .contains("--no-fallback"),
                        note -> assertThat(note).startsWith("PYTORCH_MPS_HIGH_WATERMARK_RATIO"),
                        note -> assertThat(note).contains("--log-level"));
    }
}
