package dev.starforge.cli.command;

import static dev.starforge.cli.command.CommandOutcome.run;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What {@code train} wrote, as every command takes it: a run of a whole model, and one of an adapter for it. */
final class RunAsModelTest {
    @TempDir
    static Path folder;

    private static String whole;
    private static String adapted;

    @BeforeAll
    static void train() throws IOException {
        String texts = "{\"text\": \"" + "def f(x):\\n    return x + 1\\n".repeat(8) + "\"}\n";
        Path file = Files.writeString(folder.resolve("texts.jsonl"), texts.repeat(12));
        List<String> command = new ArrayList<>(List.of("train", "--device", "cpu", "--sequences", file.toString()));
        for (String setting : List.of(
                "model.hidden_size=32",
                "model.num_hidden_layers=1",
                "model.num_attention_heads=2",
                "model.num_key_value_heads=1",
                "model.vocab_size=300",
                "model.context_window=64",
                "quantization.lora_rank=4",
                "quantization.load_in_4bit=false",
                "optimization.learning_rate=1e-2",
                "training.max_steps=4",
                "training.samples=0")) {
            command.addAll(List.of("--set", setting));
        }
        whole = folder.resolve("whole").toString();
        adapted = folder.resolve("adapted").toString();
        train(command, "scratch", whole);
        train(command, whole, adapted);
    }

    private static void train(List<String> command, String model, String output) {
        List<String> all = new ArrayList<>(command);
        all.addAll(List.of("--set", "model.pretrained_model=" + model, "--output", output));
        CommandOutcome outcome = run(all.toArray(String[]::new));
        assertThat(outcome.code()).as(outcome.err()).isZero();
    }

    private static String generated(String... args) {
        List<String> all = new ArrayList<>(List.of("generate"));
        all.addAll(List.of(args));
        all.addAll(List.of("--prompt", "def f(", "--max-tokens", "12", "--ids", "--device", "reference"));
        CommandOutcome outcome = run(all.toArray(String[]::new));
        assertThat(outcome.code()).as(outcome.err()).isZero();
        return outcome.out();
    }

    @Test
    void generateTakesAllOfThem() throws IOException {
        String checkpoint = Path.of(adapted, "checkpoint-4").toString();
        String base = Path.of(whole, "checkpoint-4").toString();
        String tuned = generated(base, "--adapter", checkpoint);
        assertThat(generated(adapted)).isEqualTo(tuned);
        assertThat(generated(checkpoint)).isEqualTo(tuned);
        assertThat(generated(base, "--adapter", adapted)).isEqualTo(tuned);
        assertThat(generated(adapted, "--base", whole)).isEqualTo(tuned);
        assertThat(generated(whole)).isEqualTo(generated(base));
        assertThat(run("generate", adapted, "--prompt", "x", "--device", "cpu").err())
                .contains("model: " + adapted + " -> best checkpoint, step 4 -> base ")
                .contains("checkpoint-4 + adapter");
        assertThat(run("generate", base, "--prompt", "x", "--device", "cpu").err())
                .isEmpty();
    }

    @Test
    void soDoTheOthers() {
        assertThat(run("inspect", adapted).out()).contains("adapter:", "rank: 4", "trained_on: none");
        assertThat(run("inspect", whole).out())
                .contains("architecture: starcoder2")
                .doesNotContain("adapter:");
        String logits = folder.resolve("logits").toString();
        assertThat(run("logits", adapted, "--ids", "1,2", "--out", logits).code())
                .isZero();
        CommandOutcome timed = run(
                "bench",
                adapted,
                "--device",
                "cpu",
                "--prompt-tokens",
                "4",
                "--gen-tokens",
                "2",
                "--repeat",
                "1",
                "--no-limits");
        assertThat(timed.code()).as(timed.err()).isZero();
        String gguf = folder.resolve("whole.gguf").toString();
        assertThat(run("export", whole, "--out", gguf).code()).isZero();
        assertThat(generated(gguf)).isEqualTo(generated(whole));
        String merged = folder.resolve("merged").toString();
        CommandOutcome outcome = run("merge", adapted, "--out", merged);
        assertThat(outcome.code()).as(outcome.err()).isZero();
        assertThat(generated(merged)).isEqualTo(generated(adapted));
    }

    @Test
    void whatCannotBeDoneNamesTheVerbThatCan() {
        assertThat(run("export", adapted, "--out", "x.gguf").err())
                .contains("`starforge merge " + adapted + " --out x.gguf`");
        assertThat(run("generate", whole, "--adapter", whole, "--prompt", "x").err())
                .contains("`starforge generate " + whole + "` takes it as the model");
        assertThat(run("generate", adapted, "--adapter", adapted, "--prompt", "x"))
                .satisfies(outcome -> assertThat(outcome.code()).isEqualTo(2))
                .satisfies(outcome -> assertThat(outcome.err()).contains("is already an adapter"));
        assertThat(run("generate", whole, "--base", whole, "--prompt", "x"))
                .satisfies(outcome -> assertThat(outcome.code()).isEqualTo(2))
                .satisfies(outcome -> assertThat(outcome.err()).contains("is a complete model, not an adapter"));
        assertThat(run("generate", adapted, "--base", adapted, "--prompt", "x").err())
                .contains("is an adapter, but a complete model is needed", "`starforge merge");
    }

    @Test
    void aBaseThatIsElsewhereIsAskedFor() throws IOException {
        Path moved = Files.createDirectory(folder.resolve("moved"));
        for (String name : List.of("adapter_config.json", "adapter_model.safetensors")) {
            Files.copy(Path.of(adapted, "checkpoint-4", name), moved.resolve(name));
        }
        Path config = moved.resolve("adapter_config.json");
        Files.writeString(
                config,
                Files.readString(config)
                        .replaceFirst("(\"base_model_name_or_path\" : )\"[^\"]*\"", "$1\"somebody/some-model\""));
        for (List<String> args : List.of(
                List.of("generate", moved.toString(), "--prompt", "x"),
                List.of(
                        "merge",
                        moved.toString(),
                        "--out",
                        folder.resolve("never").toString()))) {
            CommandOutcome outcome = run(args.toArray(String[]::new));
            assertThat(outcome.code()).isEqualTo(1);
            assertThat(outcome.err())
                    .contains("base model not found: somebody/some-model: model not found")
                    .contains("Give it with --base MODEL");
        }
        assertThat(folder.resolve("never")).doesNotExist();
        assertThat(generated(moved.toString(), "--base", whole)).isEqualTo(generated(adapted));
    }

    @Test
    void foldersThatAreNoModelSayWhatTheyAre() throws IOException {
        Path begun = Files.createDirectory(folder.resolve("begun"));
        Files.writeString(begun.resolve("config.yaml"), "");
        assertThat(run("inspect", begun.toString()).err()).contains("this run has no checkpoint yet", "--resume");
        Path dataset = Files.createDirectory(folder.resolve("dataset"));
        Files.writeString(dataset.resolve("manifest.json"), "{}");
        assertThat(run("inspect", dataset.toString()).err()).contains("is a dataset", "starforge train --dataset");
        Path empty = Files.createDirectory(folder.resolve("empty"));
        assertThat(run("inspect", empty.toString()).err()).contains("expected a run, a checkpoint, an adapter");
    }
}
