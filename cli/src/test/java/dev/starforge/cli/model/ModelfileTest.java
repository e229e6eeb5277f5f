package dev.starforge.cli.model;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cli.command.RootCommand;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ModelfileTest {
    private static final Path GOLDEN = Path.of("..", "golden", "models", "starcoder2");

    @TempDir
    Path folder;

    private static String run(int expected, String... args) {
        StringWriter out = new StringWriter();
        int code = RootCommand.commandLine()
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(out))
                .execute(args);
        assertThat(code).as(out.toString()).isEqualTo(expected);
        return out.toString();
    }

    @Test
    void ollamaIsToldHowToAskAndWhereToEnd() throws IOException {
        Path gguf = folder.resolve("tuned.gguf");
        run(0, "export", GOLDEN.toString(), "--out", gguf.toString(), "--device", "cpu", "--ollama");
        Path modelfile = folder.resolve("Modelfile");
        assertThat(Files.readString(modelfile))
                .startsWith("FROM ./tuned.gguf\n")
                .contains(
                        "TEMPLATE \"\"\"{{ if .Suffix }}<fim_prefix>{{ .Prompt }}<fim_suffix>{{ .Suffix }}<fim_middle>"
                                + "{{ else }}{{ .Prompt }}{{ end }}\"\"\"\n")
                .contains("PARAMETER stop \"<|endoftext|>\"\n")
                .contains("PARAMETER stop \"<file_sep>\"\n");

        assertThat(run(1, "export", gguf.toString(), "--ollama")).contains("Modelfile already exists");
        Path second = folder.resolve("second.gguf");
        assertThat(run(2, "export", GOLDEN.toString(), "--out", second.toString(), "--device", "cpu", "--ollama"))
                .contains("--ollama " + modelfile + " already exists");
        assertThat(second).as("refused before the work").doesNotExist();
        Files.delete(modelfile);
        assertThat(run(0, "export", gguf.toString(), "--ollama")).contains("modelfile: ");
        assertThat(modelfile).isNotEmptyFile();
        assertThat(run(2, "export", GOLDEN.toString(), "--ollama")).contains("is a folder; pass --out NAME.gguf");
        assertThat(run(2, "export", GOLDEN.toString())).contains("Missing required option: '--out=FILE'");
    }
}
