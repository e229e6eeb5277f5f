package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.Philox;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * A run in a process of its own, killed again and again at any moment, must in the end have the losses of one that was left
 * alone, bit for bit. {@code -Dfull} kills more often.
 */
final class ResumeTest {
    private static final int KILLS = System.getProperty("full") == null ? 4 : 23;
    private static final int STEPS = 40;

    @TempDir
    Path folder;

    /** Training documents with some structure; no two are equal. */
    private Path texts(String name, int count) throws IOException {
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < count; i++) {
            StringBuilder text = new StringBuilder();
            for (int k = 0; k < 8; k++) {
                int n = (int) (Philox.uniform(1, i, k) * 90);
                text.append("int f")
                        .append(n)
                        .append("(int x) { return x + ")
                        .append(n)
                        .append("; }\\n");
            }
            lines.append("{\"text\": \"").append(text).append("\"}\n");
        }
        return Files.writeString(folder.resolve(name), lines);
    }

    private List<String> command(Path run, String... further) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--add-modules",
                "jdk.incubator.vector",
                "-XX:+UseSerialGC",
                "-Xmx256m",
                "-cp",
                System.getProperty("java.class.path"),
                "dev.starforge.cli.Main",
                "train",
                "--device",
                "cpu",
                "--sequences",
                texts("texts.jsonl", 40).toString(),
                "--output",
                run.toString()));
        for (String setting : List.of(
                "model.pretrained_model=scratch",
                "model.hidden_size=32",
                "model.num_hidden_layers=1",
                "model.num_attention_heads=2",
                "model.num_key_value_heads=1",
                "model.vocab_size=320",
                "model.context_window=64",
                "data.validation=\"" + texts("held-out.jsonl", 3) + "\"",
                "optimization.batch_size=1",
                "optimization.gradient_accumulation_steps=2",
                "optimization.learning_rate=3e-3",
                "optimization.neftune_alpha=5",
                "training.max_steps=30",
                "training.eval_steps=7",
                "training.patience=0",
                "training.save_steps=3",
                "training.samples=0")) {
            command.addAll(List.of("--set", setting));
        }
        command.addAll(List.of(further));
        return command;
    }

    private int run(List<String> command, long killAfterMillis) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(
                        ProcessBuilder.Redirect.appendTo(folder.resolve("log").toFile()))
                .start();
        if (killAfterMillis > 0 && !process.waitFor(killAfterMillis, TimeUnit.MILLISECONDS)) {
            process.destroyForcibly();
        }
        return process.waitFor();
    }

    /** What must be equal of a run: everything but times and memory. */
    private static List<String> trace(Path run) throws IOException {
        List<String> trace = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode node = new JsonMapper().readTree(line);
            trace.add(node.path("step") + " " + node.path("loss") + " " + node.path("grad_norm") + " " + node.path("lr")
                    + " " + node.path("eval_loss") + " " + node.path("tokens"));
        }
        return trace;
    }

    @ParameterizedTest
    @ValueSource(strings = {"adamw", "adamw_8bit"})
    void killedAgainAndAgain(String optimizer) throws IOException, InterruptedException {
        int kills = optimizer.equals("adamw") ? KILLS : 2;
        String[] settings = {"--set", "optimization.optimizer=" + optimizer, "--set", "training.max_steps=" + STEPS};
        String[] again = {"--resume", settings[0], settings[1], settings[2], settings[3]};
        Path whole = folder.resolve("whole");
        long began = System.nanoTime();
        assertThat(run(command(whole, settings), 0)).isZero();
        long took = (System.nanoTime() - began) / 1_000_000;
        int killed = 0;
        int runs = 0;
        // a run that ends before it is killed is compared as well, and the next one begins
        for (int i = 0; killed < kills; i++) {
            assertThat(i)
                    .as("attempts, of which %d hit a run that was still going", killed)
                    .isLessThan(3 * kills);
            // anywhere in a run, most often while there is little left of its start
            long after = (long) (took * (0.25 + 0.7 * Philox.uniform(2, optimizer.length(), i)));
            Path torn = folder.resolve("torn-" + runs);
            boolean begun = Files.exists(torn.resolve(".lock"));
            long start = System.nanoTime();
            int code = run(command(torn, begun ? again : settings), after);
            if (code == 137) {
                killed++;
            } else {
                took = Math.min(took, (System.nanoTime() - start) / 1_000_000); // the first one may have had company
                assertThat(code).isZero();
                compare(torn, whole);
                runs++;
            }
        }
        assertThat(killed).isEqualTo(kills);
        assertThat(run(command(folder.resolve("torn-" + runs), again), 0)).isZero();
        compare(folder.resolve("torn-" + runs), whole);
    }

    private static void compare(Path torn, Path whole) throws IOException {
        assertThat(trace(torn)).isEqualTo(trace(whole)).hasSizeGreaterThan(STEPS);
        assertThat(Files.readAllBytes(torn.resolve("latest/model.safetensors")))
                .isEqualTo(Files.readAllBytes(whole.resolve("latest/model.safetensors")));
        assertThat(torn.resolve("checkpoint-" + STEPS)).isDirectory();
        try (var left = Files.list(torn)) {
            assertThat(left.map(path -> path.getFileName().toString())).noneMatch(name -> name.startsWith(".partial"));
        }
    }

    /** No file may grow beyond what the model's own take, so the optimizer's state cannot be written. */
    @Test
    @EnabledOnOs(OS.LINUX)
    void aDiskThatIsFullLeavesTheLastCheckpoint() throws IOException, InterruptedException {
        Path run = folder.resolve("full");
        assertThat(run(command(run, "--set", "training.max_steps=6"), 0)).isZero();
        List<String> before = trace(run);
        long weights = Files.size(run.resolve("checkpoint-6/model.safetensors"));
        List<String> command = command(run, "--resume", "--set", "training.max_steps=6");
        Files.delete(run.resolve("checkpoint-6/complete.json"));
        String limited = String.format(
                Locale.ROOT, "ulimit -f %d; exec \"$@\"", weights / 1024 + 8); // the state is twice as large
        List<String> shell = new ArrayList<>(List.of("bash", "-c", limited, "bash"));
        shell.addAll(command);
        assertThat(run(shell, 0)).isEqualTo(1);
        assertThat(Files.readString(folder.resolve("log")))
                .contains("checkpoint-6: is damaged: it has no complete.json")
                .contains("optimizer.safetensors: cannot be written");
        assertThat(run(command, 0)).isZero();
        assertThat(trace(run)).isEqualTo(before);
    }

    @Test
    @EnabledOnOs({OS.LINUX, OS.MAC})
    void anInterruptSavesAndEndsWith130() throws IOException, InterruptedException {
        Assumptions.assumeFalse(ignoresInterrupts(), "started in the background, where interrupts are ignored");
        Path run = folder.resolve("interrupted");
        Process process = new ProcessBuilder(command(run, "--set", "training.max_steps=3000", "--json"))
                .redirectError(
                        ProcessBuilder.Redirect.appendTo(folder.resolve("log").toFile()))
                .start();
        try (var lines = process.inputReader()) {
            String line = lines.readLine();
            while (line != null && !line.contains("\"step\":5,")) {
                line = lines.readLine();
            }
            new ProcessBuilder("kill", "-INT", String.valueOf(process.pid()))
                    .start()
                    .waitFor();
            String last = line;
            while (line != null) {
                last = line;
                line = lines.readLine();
            }
            assertThat(last).contains("interrupted after step");
        }
        assertThat(process.waitFor()).isEqualTo(130);
        assertThat(run.resolve("latest/complete.json")).isRegularFile();
        JsonNode summary = new JsonMapper().readTree(run.resolve("summary.json"));
        assertThat(summary.path("status").stringValue()).isEqualTo("interrupted");
    }

    /** Background processes of a shell ignore SIGINT, as do their children; /proc shows it on Linux. */
    static boolean ignoresInterrupts() throws IOException {
        Path status = Path.of("/proc/self/status");
        return Files.isReadable(status)
                && Files.readAllLines(status).stream()
                        .filter(line -> line.startsWith("SigIgn:"))
                        .anyMatch(line ->
                                (Long.parseUnsignedLong(line.substring(7).strip(), 16) & 2) != 0);
    }
}
