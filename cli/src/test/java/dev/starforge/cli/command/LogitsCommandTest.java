package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.model.file.SafetensorsFile;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

final class LogitsCommandTest {
    private static final Path GOLDEN = Path.of("..", "golden", "models", "llama2");

    @TempDir
    Path folder;

    private String error = "";

    private int run(String... args) {
        StringWriter err = new StringWriter();
        int code = RootCommand.commandLine()
                .setOut(new PrintWriter(new StringWriter()))
                .setErr(new PrintWriter(err))
                .execute(args);
        error = err.toString();
        return code;
    }

    @Test
    void logitsAreThoseOfTheReference() {
        Path out = folder.resolve("logits.safetensors");
        try (SafetensorsFile expected = SafetensorsFile.open(GOLDEN.resolve("expected.safetensors"))) {
            int[] ids = expected.ints("input_ids");
            int length = (int) expected.tensor("input_ids").shape().last();
            String[] texts = {text(ids, 0, length), text(ids, length, 2 * length)};
            assertThat(run(
                            "logits",
                            GOLDEN.toString(),
                            "--ids",
                            texts[0],
                            "--ids",
                            texts[1],
                            "--adapter",
                            GOLDEN.resolve("adapter").toString(),
                            "--out",
                            out.toString()))
                    .isZero();
            float[] theirs = expected.floats("adapter_logits");
            try (SafetensorsFile ours = SafetensorsFile.open(out)) {
                float[] second = ours.floats("logits.1");
                assertThat(ours.floats("logits.0")).hasSize(theirs.length / 2);
                for (int i = 0; i < second.length; i++) {
                    assertThat(second[i]).isCloseTo(theirs[theirs.length / 2 + i], within(1e-3f));
                }
            }
        }
    }

    @Test
    void piecesMakeTheSameFile() throws IOException {
        String text = "1,2,3,4,5,6,7,8,9,10,11";
        Path whole = folder.resolve("whole.safetensors");
        assertThat(run("logits", GOLDEN.toString(), "--ids", text, "--ids", "5,6", "--out", whole.toString()))
                .isZero();
        for (int elements : new int[] {1, 640, 3 * 640 + 7}) {
            Path out = folder.resolve("pieces-" + elements + ".safetensors");
            CommandLine command = RootCommand.commandLine();
            command.getCommandSpec().removeSubcommand("logits");
            command.addSubcommand(new LogitsCommand(elements));
            assertThat(command.setOut(new PrintWriter(new StringWriter()))
                            .execute(
                                    "logits",
                                    GOLDEN.toString(),
                                    "--ids",
                                    text,
                                    "--ids",
                                    "5,6",
                                    "--out",
                                    out.toString()))
                    .isZero();
            assertThat(Files.mismatch(whole, out)).isEqualTo(-1);
        }
    }

    private static String text(int[] ids, int from, int to) {
        return Arrays.stream(ids, from, to).mapToObj(Integer::toString).collect(Collectors.joining(","));
    }

    @Test
    void idsThatAreNoneAreNamed() {
        Path out = folder.resolve("logits.safetensors");
        assertThat(run("logits", GOLDEN.toString(), "--ids", "1,640", "--out", out.toString()))
                .isEqualTo(2);
        assertThat(error).contains("--ids: expected numbers from 0 to 639, got 1,640");
        assertThat(run("logits", GOLDEN.toString(), "--ids", "1,x", "--out", out.toString()))
                .isEqualTo(2);
        assertThat(Files.exists(out)).isFalse();
    }

    @Test
    void aFlagOfTheCacheIsRefused() {
        Path out = folder.resolve("logits.safetensors");
        assertThat(run("logits", GOLDEN.toString(), "--ids", "1,2", "--kv-dtype", "F16", "--out", out.toString()))
                .isEqualTo(2);
        assertThat(error).contains("--kv-dtype: not supported by logits");
        assertThat(Files.exists(out)).isFalse();
    }
}
