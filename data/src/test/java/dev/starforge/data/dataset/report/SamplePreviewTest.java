package dev.starforge.data.dataset.report;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.data.JsonDocuments;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The preview marks text that counts in the loss, and untrusted text cannot control the terminal. */
final class SamplePreviewTest {
    private static final String GREEN = "\u001b[32m";
    private static final String FAINT = "\u001b[2m";
    private static final String RESET = "\u001b[0m";

    @TempDir
    private Path folder;

    private String printed(boolean coloured) throws IOException {
        Tokenizer tokenizer = Tokenizer.read(Path.of("..", "golden", "tokenizers", "starcoder2", "tokenizer.json"));
        Path file = Files.writeString(
                folder.resolve("pairs.jsonl"),
                "{\"prompt\": \"def f(\", \"completion\": \"x):\u001b[2J\"}\n".replace("\u001b", "\\u001b"));
        StringWriter out = new StringWriter();
        SamplePreview.print(
                new PrintWriter(out),
                JsonDocuments.lines(file, tokenizer, () -> {
                    throw new AssertionError("nobody speaks here");
                }),
                tokenizer,
                1,
                coloured);
        return out.toString();
    }

    @Test
    void coloursAreForTerminalsAndMarksForAllElse() throws IOException {
        assertThat(printed(true))
                .contains(FAINT + "def f(" + RESET + GREEN + "x):\u241b[2J" + RESET)
                .doesNotContain("⟦")
                .doesNotContain("\u001b[2J");
        assertThat(printed(false)).contains("def f(⟦x):\u241b[2J⟧").doesNotContain("\u001b");
    }
}
