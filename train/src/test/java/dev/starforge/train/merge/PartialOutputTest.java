package dev.starforge.train.merge;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.text.FileException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class PartialOutputTest {
    @TempDir
    Path folder;

    @Test
    void twoRunsWithOneOutputDoNotTouchEachOther() throws IOException {
        Path out = folder.resolve("merged.gguf");
        try (PartialOutput first = new PartialOutput(out, ModelFormat.GGUF)) {
            Files.writeString(first.path(), "first");
            assertThatThrownBy(() -> new PartialOutput(out, ModelFormat.GGUF))
                    .isInstanceOf(FileException.class)
                    .hasMessageContaining("merged.gguf: is being written by another run");
            first.publish();
        }
        assertThat(out).hasContent("first");
        assertThat(folder.toFile().list()).containsExactly("merged.gguf");
    }
}
