package dev.starforge.model.layer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.JsonConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Rotary frequencies as configs spell them. */
final class RotaryEmbeddingTest {
    @TempDir
    Path folder;

    @Test
    void bothSpellingsOfRopeSettingsAreRead() throws IOException {
        Path older = folder.resolve("older.json");
        Path newer = folder.resolve("newer.json");
        String scaling = "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
                + "\"original_max_position_embeddings\": 16";
        Files.writeString(
                older, "{\"rope_theta\": 5e5, \"rope_scaling\": {\"rope_type\": \"llama3\", " + scaling + "}}");
        Files.writeString(
                newer, "{\"rope_parameters\": {\"rope_theta\": 5e5, \"rope_type\": \"llama3\", " + scaling + "}}");
        float[] frequencies =
                RotaryEmbedding.RopeScaling.of(JsonConfig.read(newer), 16).frequencies(0);
        assertThat(RotaryEmbedding.RopeScaling.of(JsonConfig.read(older), 16).frequencies(0))
                .isEqualTo(frequencies);
        double kept = (16 / (2 * Math.PI) - 1) / 3; // frequency 1 lies inside the blended band
        assertThat(frequencies[0]).isCloseTo((float) ((1 - kept) / 8 + kept), Offset.offset(1e-7f));
        assertThat(frequencies[7]).isCloseTo((float) (Math.pow(5e5, -14 / 16.0) / 8), Offset.offset(1e-12f));
    }
}
