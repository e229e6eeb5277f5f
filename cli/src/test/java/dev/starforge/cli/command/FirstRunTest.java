package dev.starforge.cli.command;

import static dev.starforge.cli.command.CommandOutcome.run;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.text.report.ShellQuoting;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.json.JsonMapper;

/** The first training run: the starter configuration, error messages and the suggested next commands. */
final class FirstRunTest {
    @TempDir
    Path folder;

    @Test
    void aFileToBeginWithIsWrittenOnce() throws IOException {
        Path file = folder.resolve("train.yaml");
        CommandOutcome written = run("train", "--init", file.toString());
        assertThat(written.code()).isZero();
        assertThat(written.out()).contains("starforge doctor --config " + file);
        assertThat(Files.readString(file)).contains("pretrained_model:").contains("# ");
        Files.writeString(file, "mine");
        CommandOutcome again = run("train", "--init", file.toString());
        assertThat(again.code()).isEqualTo(2);
        assertThat(again.err()).contains("already exists");
        assertThat(file).hasContent("mine");
    }

    @Test
    void aPageNeedsAPortAndARun() {
        for (List<String> wrong :
                List.of(List.of("--ui", "65536"), List.of("--ui", "-1"), List.of("--ui", "0", "--print-config"))) {
            List<String> command = new ArrayList<>(List.of("train"));
            command.addAll(wrong);
            CommandOutcome refused = run(command.toArray(String[]::new));
            assertThat(refused.code()).as(wrong.toString()).isEqualTo(2);
            assertThat(refused.err()).contains("--ui: expected a port from 0 to 65535");
        }
    }

    @Test
    void settingsArePrintedWithoutAModel() {
        for (String model : List.of("bigcode/starcoder2-3b", "nobody/nothing")) {
            CommandOutcome printed =
                    run("train", "--set", "model.pretrained_model=" + model, "--device", "cpu", "--print-config");
            assertThat(printed.err()).isEmpty();
            assertThat(printed.code()).isZero();
            assertThat(printed.out())
                    .startsWith("# " + model + " is not on this machine")
                    .contains("  max_tokens: 200000");
        }
    }

    @Test
    void aMissingModelSaysHowToGetOne() {
        CommandOutcome outcome = run(
                "train",
                "--set",
                "model.pretrained_model=bigcode/starcoder2-3b",
                "--device",
                "cpu",
                "--output",
                folder.resolve("run").toString());
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err())
                .contains("bigcode/starcoder2-3b: model not found")
                .contains("`starforge pull bigcode/starcoder2-3b`")
                .contains("a GGUF file")
                .contains("model.pretrained_model=scratch")
                .contains("model.hidden_size")
                .contains("starforge train --init");
        assertThat(folder.resolve("run")).doesNotExist();
    }

    @Test
    void resumingNothingSaysSo() {
        CommandOutcome outcome = run(
                "train", "--device", "cpu", "--output", folder.resolve("run").toString(), "--resume");
        assertThat(outcome.code()).isEqualTo(2);
        assertThat(outcome.err()).contains("no run to resume; start one without --resume");
        assertThat(folder.resolve("run")).doesNotExist();
    }

    @Test
    void helpHasNoWarnings() {
        PrintStream before = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        System.setErr(new PrintStream(said));
        try {
            assertThat(run("eval", "--help").out()).contains("a 95 % bootstrap");
        } finally {
            System.setErr(before);
        }
        assertThat(said.toString()).isEmpty();
    }

    private Path texts(String name, int count) throws IOException {
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < count; i++) {
            lines.append("{\"text\": \"");
            for (int k = 0; k < 6; k++) {
                lines.append("def f" + (7 * i + k) % 50 + "(x):\\n    return x + " + k + "\\n");
            }
            lines.append("\"}\n");
        }
        return Files.writeString(folder.resolve(name), lines);
    }

    private CommandOutcome train(Path run, String... further) throws IOException {
        List<String> command = new ArrayList<>(List.of("train", "--device", "cpu", "--output", run.toString()));
        for (String setting : List.of(
                "model.hidden_size=64",
                "model.num_hidden_layers=1",
                "model.num_attention_heads=2",
                "model.num_key_value_heads=1",
                "model.vocab_size=320",
                "model.context_window=64",
                "quantization.lora_rank=4",
                "data.train=\"" + texts("train.jsonl", 20) + "\"",
                "data.validation=\"" + texts("held.jsonl", 4) + "\"",
                "optimization.batch_size=4",
                "optimization.gradient_accumulation_steps=1",
                "optimization.learning_rate=1e-2",
                "training.max_steps=8",
                "training.samples=1")) {
            command.addAll(List.of("--set", setting));
        }
        command.addAll(List.of(further));
        return run(command.toArray(String[]::new));
    }

    /** The commands that a run ends with, after the name of the program. */
    private static List<String[]> commands(String out) {
        return out.lines()
                .filter(line -> line.contains(":  ") && line.contains("starforge "))
                .map(line -> line.substring(line.indexOf("starforge ") + 10))
                .map(command -> Arrays.stream(command.split(" +(?=([^']*'[^']*')*[^']*$)"))
                        .map(word -> word.replace("'", ""))
                        .toArray(String[]::new))
                .toList();
    }

    @Test
    void whatARunNamesAsNextCanBeRun() throws IOException {
        Path first = folder.resolve("first run");
        CommandOutcome whole = train(first, "--set", "model.pretrained_model=scratch");
        assertThat(whole.err()).isEmpty();
        assertThat(whole.out()).containsPattern("[0-9,]+ tokens count in the loss of an epoch");
        List<String[]> next = commands(whole.out());
        assertThat(next).extracting(command -> command[0]).containsExactly("generate", "eval", "merge", "quantize");
        CommandOutcome evaluated = run(next.get(1));
        assertThat(evaluated.code()).as(evaluated.err()).isZero();
        assertThat(evaluated.out()).contains("4 documents of the validation split: all ");
        CommandOutcome merged = run(next.get(2));
        assertThat(merged.code()).as(merged.err()).isZero();
        assertThat(merged.out()).contains("proved: true").contains("all weights were trained");
        assertThat(folder.resolve("first run-merged/model.safetensors")).isRegularFile();
        assertThat(folder.resolve("first run-merged/optimizer.safetensors")).doesNotExist();

        Path second = folder.resolve("second");
        CommandOutcome adapter = train(second, "--set", "model.pretrained_model=\"" + first.resolve("latest") + "\"");
        assertThat(adapter.err()).isEmpty();
        next = commands(adapter.out());
        CommandOutcome table = run(next.get(1));
        assertThat(table.code()).as(table.err()).isZero();
        aligned(table.out());
        assertThat(run(next.get(2)).code()).isZero();
        assertThat(run(next.get(3)).code()).isZero();
        assertThat(folder.resolve("second-q8_0.gguf")).isRegularFile();
    }

    /** Without a model it is the built-in one, a quantized GGUF file; every command that the run prints works. */
    @Test
    void theBuiltInBaseIsTheDefaultAndItsCommandsWork() throws IOException {
        Path run = folder.resolve("run");
        CommandOutcome trained = train(run, "--set", "training.max_steps=2", "--set", "training.samples=0");
        assertThat(trained.code()).as(trained.err()).isZero();
        assertThat(trained.out()).contains("the base is quantized already (Q8_0, 8.5 bits per weight)");
        List<String[]> next = commands(trained.out());
        assertThat(next).extracting(command -> command[0]).containsExactly("generate", "eval", "merge", "quantize");
        for (String[] command : next) {
            CommandOutcome outcome = run(command);
            assertThat(outcome.code())
                    .as(String.join(" ", command) + outcome.err())
                    .isZero();
        }
        assertThat(folder.resolve("run-merged.gguf")).isRegularFile();
        assertThat(folder.resolve("run-q8_0.gguf")).isRegularFile();
        CommandOutcome there = run(
                "merge", run.toString(), "--out", folder.resolve("elsewhere").toString());
        assertThat(there.code()).isEqualTo(2);
        assertThat(there.err()).contains("elsewhere.gguf, or --format hf");
        Files.delete(folder.resolve("run-merged.gguf"));
        CommandOutcome configured =
                run("merge", "--config", run.resolve("config.yaml").toString(), "--json");
        assertThat(configured.code()).as(configured.err()).isZero();
        assertThat(configured.json().path("out").stringValue()).endsWith("run-merged.gguf");
        assertThat(configured.json().path("proved").booleanValue()).isTrue();
    }

    /** The file of all devices asks for four bits, which is fewer than the built-in base has. */
    @Test
    void fourBitsOfTheBuiltInBaseAreTrainedAndMerged() throws IOException {
        Path run = folder.resolve("run");
        CommandOutcome trained = train(
                run,
                "--set",
                "training.max_steps=2",
                "--set",
                "training.samples=0",
                "--set",
                "quantization.load_in_4bit=true",
                "--set",
                "optimization.learning_rate=1e-6"); // changes less than F16 rounds
        assertThat(trained.code()).as(trained.err()).isZero();
        CommandOutcome merged =
                run("merge", run.toString(), "--out", folder.resolve("m.gguf").toString(), "--json");
        assertThat(merged.code()).as(merged.err()).isZero();
        assertThat(merged.json().path("merged_onto").stringValue()).isEqualTo("nf4-double");
        assertThat(merged.json().path("note").stringValue()).contains("the changed matrices are F32");
    }

    /** Every column of the table begins where its head does, and every difference is there. */
    private static void aligned(String out) {
        List<String> lines = out.lines().toList();
        int head = 0;
        while (!lines.get(head).contains("difference")) {
            head++;
        }
        for (String column : List.of("base", "tuned", "difference")) {
            int at = lines.get(head).indexOf(column);
            for (String line : lines.subList(head + 1, head + 3)) {
                assertThat(line.substring(at)).as(line).matches("-?\\d+\\.\\d{1,4} \\[.*");
                assertThat(line.charAt(at - 1)).isEqualTo(' ');
            }
        }
        assertThat(lines.get(head + 1)).startsWith("perplexity ");
    }

    @Test
    void aFinishedRunSaysHowToGoOnAndDoes() throws IOException {
        Path run = folder.resolve("run");
        train(run, "--set", "model.pretrained_model=scratch");
        CommandOutcome again = run("train", "--output", run.toString(), "--resume");
        assertThat(again.out())
                .contains("the run has done all of its 8 steps; to continue, raise training.max_steps (now 8)");
        CommandOutcome longer = run("train", "--output", run.toString(), "--resume", "--set", "training.max_steps=10");
        assertThat(longer.err()).isEmpty();
        assertThat(longer.out()).contains("continues to step 10 instead of 8").contains("step 10/10");
    }

    @Test
    void whatIsLeftOutIsAnEvent() throws IOException {
        Files.writeString(
                folder.resolve("pairs.jsonl"),
                "{\"prompt\": \"" + "x = 1\\n".repeat(60) + "\", \"completion\": \"y\"}\n"
                        + "{\"prompt\": \"x\", \"completion\": \"y = 2\"}\n");
        CommandOutcome outcome = train(
                folder.resolve("run"),
                "--set",
                "model.pretrained_model=scratch",
                "--set",
                "data.train=\"" + folder.resolve("pairs.jsonl") + "\"",
                "--set",
                "training.max_steps=1",
                "--json");
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.out().lines().map(line -> new JsonMapper().readTree(line)))
                .anyMatch(event -> event.path("event").asString("").equals("data")
                        && event.path("split").asString("").equals("train")
                        && event.path("dropped_documents").asInt(0) == 1);
    }

    @Test
    void pathsAreQuotedForTheShell() {
        assertThat(ShellQuoting.quoted(Path.of("runs/first-1"))).isEqualTo("runs/first-1");
        assertThat(ShellQuoting.quoted(Path.of("my runs/it's"))).isEqualTo("'my runs/it'\\''s'");
        assertThat(ShellQuoting.quoted(Path.of("-x"))).isEqualTo("./-x");
    }
}
