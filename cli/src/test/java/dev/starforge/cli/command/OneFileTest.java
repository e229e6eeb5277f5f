package dev.starforge.cli.command;

import static dev.starforge.cli.command.CommandOutcome.run;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cli.process.ExitCode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** One file of settings for every command from the repository to the merged model; each takes its own and checks the others. */
final class OneFileTest {
    private static final Path GOLDEN = Path.of("..", "golden", "models", "qwen2");

    @TempDir
    Path folder;

    /** Splits are made by time, so each command has a day of its own. */
    private int day = 10;

    private void git(String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("git", "-c", "user.name=A", "-c", "user.email=a@b.example"));
        command.addAll(List.of(args));
        ProcessBuilder builder = new ProcessBuilder(command)
                .directory(folder.resolve("repo").toFile())
                .inheritIO();
        builder.environment().put("GIT_COMMITTER_DATE", "2024-01-" + ++day + "T12:00:00Z");
        assertThat(builder.start().waitFor()).isZero();
    }

    @BeforeEach
    void makeRepositoryAndModel() throws IOException, InterruptedException {
        Files.createDirectory(folder.resolve("repo"));
        git("init", "-q", "-b", "main");
        Random random = new Random(1);
        for (int i = 0; i < 5; i++) {
            StringBuilder code = new StringBuilder();
            for (int k = 0; k < 4; k++) {
                code.append("def ")
                        .append(word(random))
                        .append("(")
                        .append(word(random))
                        .append("):\n");
                for (int line = 0; line < 6; line++) {
                    code.append("    " + word(random) + " = " + word(random) + " + " + word(random) + "\n");
                }
                code.append('\n');
            }
            Files.writeString(folder.resolve("repo").resolve("part" + i + ".py"), code);
            git("add", ".");
            git("commit", "-q", "-m", "Part " + i);
        }
        Path model = Files.createDirectory(folder.resolve("model"));
        for (String name : List.of("config.json", "model.safetensors", "tokenizer.json")) {
            Files.copy(GOLDEN.resolve(name), model.resolve(name));
        }
    }

    /** Documents must differ, or they are dropped as duplicates. */
    private static String word(Random random) {
        StringBuilder word = new StringBuilder();
        random.ints(6, 'a', 'z' + 1).forEach(word::appendCodePoint);
        return word.toString();
    }

    private String file(String further) throws IOException {
        Path config = Files.writeString(folder.resolve("all.yaml"), """
            model: {pretrained_model: "%1$s/model", context_window: 128}
            quantization: {lora_rank: 2, load_in_4bit: false}
            dataset:
              samples: {span: line}
              splits: {train: 60, validation: 20, test: 20}
            data: {path: "%1$s/data"}
            optimization: {batch_size: 2, gradient_accumulation_steps: 1, learning_rate: 1e-2}
            training: {max_steps: 2, samples: 0}
            evaluation: {max_tokens: 300, prompts: ["def f"], prompt_tokens: 2}
            device: {force: cpu}
            output: {output_dir: "%1$s/run"}
            """.formatted(folder) + further);
        return config.toString();
    }

    @Test
    void theWholeWay() throws IOException {
        String config = file("");
        String repo = folder.resolve("repo").toString();
        CommandOutcome dataset =
                run("dataset", "--repo", repo, "--config", config, "--set", "samples.order=dependency");
        assertThat(dataset.code()).as(dataset.err()).isZero();
        assertThat(dataset.err()).contains("tokenizer: " + folder.resolve("model"));
        JsonNode manifest = new JsonMapper().readTree(folder.resolve("data").resolve("manifest.json"));
        assertThat(manifest.path("config").path("samples.span").asString()).isEqualTo("line");
        assertThat(manifest.path("config").path("samples.order").asString()).isEqualTo("dependency");
        assertThat(manifest.path("config").path("samples.context_length").asInt())
                .isEqualTo(128);
        assertThat(manifest.path("config").path("splits.train").asDouble()).isEqualTo(60);

        CommandOutcome doctor = run("doctor", "--config", config);
        assertThat(doctor.out()).contains("valid").doesNotContain("FAILS");
        CommandOutcome train = run("train", "--config", config);
        assertThat(train.code()).as(train.err()).isZero();
        assertThat(train.out()).contains("step 2/2");
        assertThat(Files.readString(folder.resolve("run").resolve("config.yaml")))
                .contains("    span: line");
        String tuned = folder.resolve("run").toString();
        CommandOutcome eval = run("eval", "--config", config, "--adapter", tuned, "--samples", "0");
        assertThat(eval.code()).as(eval.err()).isZero();
        assertThat(eval.out()).contains("perplexity");
        CommandOutcome merge = run("merge", "--config", config);
        assertThat(merge.code()).as(merge.err()).isZero();
        assertThat(merge.out()).contains("proved: true");
        assertThat(folder.resolve("run-merged").resolve("model.safetensors")).isRegularFile();
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
        evaluation2: {x: 1}            | unknown key evaluation2.x; train --print-config lists all keys
        'tune: {learning_rate: 1}'     | unknown key tune.learning_rate; the nearest one is optimization.learning_rate
        '"dataset.samples.order": any' | key dataset.samples.order: expected one of random, dependency, got any
        '"dataset.samples.spam": 1'    | unknown key dataset.samples.spam; the nearest one is dataset.samples.spm
        '"training.num_epochs": 0'     | key training.num_epochs: expected whole number 1..1048576, got 0
        '"device.attention": fast'     | key device.attention: expected one of auto, flash, plain, got fast
        trust_remote_code: true        | key trust_remote_code: true is refused: code that comes with a model is never executed
        """)
    void everyVerbChecksEverySection(String line, String message) throws IOException {
        String config = file(line + "\n");
        int last = Files.readAllLines(Path.of(config)).size();
        for (String command : List.of("dataset", "doctor", "train", "eval", "merge", "tune")) {
            CommandOutcome outcome = run(command, "--config", config);
            assertThat(outcome.code()).as(command).isEqualTo(ExitCode.WRONG_USE);
            assertThat(outcome.out() + outcome.err()).as(command).contains(config + ":" + last + ": " + message);
        }
    }

    @Test
    void aTokenizerIsTrainedWhereTheModelIsNotHere() throws IOException {
        String repo = folder.resolve("repo").toString();
        String out = folder.resolve("out").toString();
        CommandOutcome missing =
                run("dataset", "--repo", repo, "--out", out, "--set", "model.pretrained_model=nobody/nothing");
        assertThat(missing.code()).as(missing.err()).isZero();
        assertThat(missing.err())
                .contains("training a new one with 8,192 tokens, since nobody/nothing is not on this machine")
                .contains("but not a model with another vocabulary");
        assertThat(run("dataset", "--repo", repo, "--config", file(""), "--out", out)
                        .err())
                .as("settings differ")
                .contains("was built with splits.train = 85.0, not 60.0");
        // a dataset that is there keeps the tokenizer it was begun with
        CommandOutcome again =
                run("dataset", "--repo", repo, "--out", out, "--set", "model.pretrained_model=" + model());
        assertThat(again.out()).as(again.err()).contains("up to date");

        String scratch = folder.resolve("scratch").toString();
        CommandOutcome small = run(
                "dataset",
                "--repo",
                repo,
                "--out",
                scratch,
                "--set",
                "model.pretrained_model=scratch",
                "--set",
                "model.vocab_size=320");
        assertThat(small.err()).contains("training a new one with 320 tokens (model.pretrained_model=scratch)");
        CommandOutcome other = run(
                "train",
                "--dataset",
                out,
                "--set",
                "model.pretrained_model=" + model(),
                "--set",
                "model.context_window=128",
                "--device",
                "cpu");
        assertThat(other.code()).isNotZero();
        assertThat(other.err()).contains("key data.path: " + out).contains("it was made with another tokenizer than");
    }

    /** A dataset without settings fits the model that train takes without settings. */
    @Test
    void theDefaultModelIsTheBuiltInOne() {
        Path out = folder.resolve("out");
        CommandOutcome outcome = run("dataset", "--repo", folder.resolve("repo").toString(), "--out", out.toString());
        assertThat(outcome.code()).as(outcome.err()).isZero();
        assertThat(outcome.err()).contains("tokenizer: nano (model.pretrained_model)");
        assertThat(out.resolve("manifest.json")).content().contains("\"samples.context_length\" : 1024");
    }

    private String model() {
        return folder.resolve("model").toString();
    }

    @Test
    void aShortContextIsNamed() throws IOException {
        CommandOutcome outcome = run(
                "dataset",
                "--repo",
                folder.resolve("repo").toString(),
                "--config",
                file(""),
                "--set",
                "model.context_window=32");
        assertThat(outcome.code()).isEqualTo(ExitCode.WRONG_USE);
        assertThat(outcome.err())
                .contains("key model.context_window: 32: documents of a dataset have at least 64 tokens");
    }

    @Test
    void mergeNeedsARunOrAFile() {
        CommandOutcome outcome = run("merge", "--out", folder.resolve("x").toString());
        assertThat(outcome.code()).isEqualTo(ExitCode.WRONG_USE);
        assertThat(outcome.err()).contains("Missing required parameter: 'ADAPTER'");
    }
}
