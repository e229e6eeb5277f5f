package dev.starforge.cli.command;

import static dev.starforge.cli.command.CommandOutcome.run;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Errors of {@code tune}; {@link TuneTest} covers successful runs. */
final class TuneCommandTest {
    private static final String MODEL =
            Path.of("..", "golden", "models", "starcoder2").toString();

    @TempDir
    Path folder;

    @Test
    void refusesWhatContradictsItself() {
        CommandOutcome both = run("tune", "--minutes", "5", "--epochs", "1");
        assertThat(both.code()).isEqualTo(2);
        assertThat(both.err()).contains("--minutes and --epochs cannot be combined");
        CommandOutcome none = run("tune", "--minutes", "0");
        assertThat(none.code()).isEqualTo(2);
        assertThat(none.err()).contains("--minutes: expected more than 0");
        CommandOutcome whole = run("tune", "--model", MODEL, "--set", "quantization.lora_enabled=false");
        assertThat(whole.code()).isEqualTo(2);
        assertThat(whole.err()).contains("tune trains an adapter");
    }

    @Test
    void saysThatThereIsNoRepository() {
        CommandOutcome outcome = run("tune", "--model", MODEL, "--device", "cpu", "--repo", folder.toString());
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err()).contains(folder.toString()).contains("git repository");
        assertThat(folder).isEmptyDirectory();
    }

    private void makeRepository() throws IOException, InterruptedException {
        Files.writeString(folder.resolve("a.py"), "def a(b):\n    return b\n");
        for (String[] command : new String[][] {
            {"git", "init", "-q"},
            {"git", "add", "."},
            {"git", "-c", "user.name=A", "-c", "user.email=a@b.example", "commit", "-q", "-m", "A"}
        }) {
            assertThat(new ProcessBuilder(command)
                            .directory(folder.toFile())
                            .start()
                            .waitFor())
                    .isZero();
        }
    }

    /** Without a terminal, long runs require --yes; otherwise nothing is written. */
    @Test
    void asksBeforeLongWork() throws IOException, InterruptedException {
        makeRepository();
        CommandOutcome outcome =
                run("tune", "--model", MODEL, "--device", "cpu", "--repo", folder.toString(), "--minutes", "30");
        assertThat(outcome.err()).contains("about 30 min").contains("--yes");
        assertThat(outcome.code()).isEqualTo(2);
        assertThat(outcome.out()).contains("1 dataset").contains("5 quantize").contains("1 commits");
        assertThat(folder.resolve(".starforge")).doesNotExist();
    }

    @Test
    void writesWhereItIsTold() throws IOException, InterruptedException {
        makeRepository();
        Path elsewhere = folder.resolve("elsewhere");
        CommandOutcome outcome = run(
                "tune",
                "--model",
                MODEL,
                "--device",
                "cpu",
                "--repo",
                folder.toString(),
                "--output",
                elsewhere.toString(),
                "--epochs",
                "1");
        assertThat(outcome.code()).as(outcome.err()).isZero();
        assertThat(outcome.out()).contains("output: " + elsewhere);
        assertThat(elsewhere.resolve(Path.of("data", "manifest.json"))).isRegularFile();
        assertThat(elsewhere.resolve("model")).isDirectoryContaining("glob:**.gguf");
        assertThat(folder.resolve(".starforge")).doesNotExist();
    }
}
