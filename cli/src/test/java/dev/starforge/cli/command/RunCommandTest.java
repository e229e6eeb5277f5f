package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cli.model.DefaultModel;
import dev.starforge.cli.process.StandardInput;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/** {@code run} at a terminal and in a pipe. */
final class RunCommandTest {
    private static final String MODEL =
            Path.of("..", "golden", "models", "starcoder2").toString();

    private record Outcome(int code, String out, String err) {}

    private static Outcome run(boolean terminal, String typed, String... further) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        StandardInput input =
                new StandardInput(new ByteArrayInputStream(typed.getBytes(StandardCharsets.UTF_8)), terminal);
        List<String> args = new ArrayList<>(List.of(MODEL, "--device", "cpu", "--set", "temperature=0"));
        args.addAll(List.of(further));
        int code = new CommandLine(new RunCommand(input))
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err))
                .execute(args.toArray(String[]::new));
        return new Outcome(code, out.toString(), err.toString());
    }

    private static String generated(String... further) {
        StringWriter out = new StringWriter();
        List<String> args = new ArrayList<>(List.of("generate", MODEL, "--device", "cpu", "--max-tokens", "8"));
        args.addAll(List.of(further));
        int code = RootCommand.commandLine().setOut(new PrintWriter(out)).execute(args.toArray(String[]::new));
        assertThat(code).isZero();
        return out.toString();
    }

    @Test
    void aPipeIsOnePrompt() {
        Outcome plain = run(false, "def add(a, b):\n", "--set", "max_tokens=8");
        assertThat(plain.code()).as(plain.err()).isZero();
        assertThat(plain.out()).isEqualTo(generated("--token-healing", "--prompt", "def add(a, b):"));
        Outcome filled = run(false, "return <cursor> + b", "--set", "max_tokens=8");
        assertThat(filled.out()).isEqualTo(generated("--token-healing", "--fim", "return ", " + b"));
    }

    @Test
    void aSessionAnswersAndSets() {
        String typed = """
            /set max_tokens 8
            /set temperature warm
            /set colour 1
            def add(a, b):
            /fim nothing here
            return <cursor> + b
            \"""
            def add(a, b):
                return a\"""
            /nonsense
            /bye
            never read
            """;
        Outcome outcome = run(true, typed);
        assertThat(outcome.code()).as(outcome.err()).isZero();
        assertThat(outcome.out())
                .contains("max_tokens 8, temperature 0.0")
                .contains("temperature: expected a number, got warm")
                .contains("expected one of max_tokens")
                .contains(">>> " + generated("--token-healing", "--prompt", "def add(a, b):"))
                .contains("/fim: expected text with <cursor>")
                .contains(">>> " + generated("--token-healing", "--fim", "return ", " + b"))
                .contains("... " + generated("--token-healing", "--prompt", "def add(a, b):\n    return a"))
                .contains("unknown command /nonsense; /help lists commands")
                .doesNotContain("never read");
    }

    @Test
    void anEmptyPipeIsRefused() {
        Outcome outcome = run(false, "\n");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err()).contains("the prompt is empty");
    }

    @Test
    void wrongSettingsAreRefused() {
        Outcome outcome = run(false, "x", "--set", "top_p=7");
        assertThat(outcome.code()).isEqualTo(2);
        assertThat(outcome.err()).contains("--set top_p=7").contains("above 0 and at most 1");
    }

    @Test
    void whatWasTunedHereGoesBeforeNano(@TempDir Path folder) throws IOException {
        StringWriter err = new StringWriter();
        Path inside = Files.createDirectories(folder.resolve("src").resolve("main"));
        assertThat(DefaultModel.of(null, inside, new PrintWriter(err))).isEqualTo("nano");
        assertThat(err.toString()).contains("nano").contains("22 M");
        Path tuned = Files.createDirectories(folder.resolve(".starforge"));
        Files.writeString(
                tuned.resolve("tune.json"),
                "{\"format\": \"starforge-tune\", \"version\": 1, \"rounds\": [], \"model\": \"model/x.gguf\"}");
        assertThat(DefaultModel.of(null, inside, new PrintWriter(err)))
                .isEqualTo(tuned.resolve("model").resolve("x.gguf").toString());
        assertThat(DefaultModel.of("mine.gguf", inside, new PrintWriter(err))).isEqualTo("mine.gguf");
    }
}
