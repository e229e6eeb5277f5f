package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.device.Selection;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

final class OpsTableTest {
    private static final Path TABLE = Path.of("..", "docs", "ops.md");

    @Test
    void docsMatchBackendSupport() throws IOException {
        assertThat(Files.readString(TABLE))
                .as("docs/ops.md is out of date; write it again with: ./dev conformance table docs/ops.md")
                .isEqualTo(OpsTable.render(Selection.backends()));
    }

    @Test
    void missingBackendHasNoSupport() {
        assertThat(OpsTable.render(List.of())).contains("| MatMul | plain | yes | | — | — | — | — |");
    }

    @Test
    void tableListsOverwrittenInputs() {
        assertThat(OpsTable.render(List.of())).contains("| AdamW | plain | | 0, 1, 2 |", "| Store | plain | | 0 |");
    }
}
