package dev.starforge.cli.command;

import static dev.starforge.cli.command.CommandOutcome.run;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Trains a new model and an adapter, merges and evaluates them with commands only. */
final class TrainCommandTest {
    @TempDir
    Path folder;

    private Path texts(String name, int count) throws IOException {
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < count; i++) {
            lines.append("{\"text\": \"");
            for (int k = 0; k < 10; k++) {
                lines.append("def f")
                        .append((7 * i + k) % 50)
                        .append("(x):\\n    return x + ")
                        .append(k)
                        .append("\\n");
            }
            lines.append("\"}\n");
        }
        return Files.writeString(folder.resolve(name), lines);
    }

    private List<String> command(String name, String... further) throws IOException {
        Path config = Files.writeString(
                folder.resolve("train.yaml"), """
                    model: {hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1, vocab_size: 320,
                            context_window: 64}
                    quantization: {lora_rank: 4}
                    data: {train: "%1$s", validation: "%2$s", test: "%2$s"}
                    optimization: {batch_size: 4, gradient_accumulation_steps: 1, learning_rate: 1e-2}
                    training: {max_steps: 25, eval_steps: 10, samples: 1}
                    device: {force: cpu}
                    """.formatted(texts("train.jsonl", 30), texts("held-out.jsonl", 4)));
        List<String> command = new ArrayList<>(List.of(name, "--config", config.toString()));
        command.addAll(List.of(further));
        return command;
    }

    @Test
    void theWholeWay() throws IOException {
        Path first = folder.resolve("first");
        CommandOutcome outcome = run(
                command("train", "--set", "model.pretrained_model=scratch", "--output", first.toString(), "--json"));
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        List<JsonNode> events = outcome.out()
                .lines()
                .map(line -> new JsonMapper().readTree(line))
                .toList();
        assertThat(events).anyMatch(event -> event.path("event").asString("").equals("evaluation"));
        List<JsonNode> steps = events.stream()
                .filter(event -> event.path("event").asString("").equals("step"))
                .toList();
        assertThat(steps).hasSize(25);
        assertThat(steps.getLast().path("loss").doubleValue())
                .isLessThan(0.8 * steps.getFirst().path("loss").doubleValue());

        Path second = folder.resolve("second");
        String base = "model.pretrained_model=\"" + first.resolve("latest") + "\"";
        outcome = run(command("train", "--set", base, "--output", second.toString(), "--epochs", "1", "--verbose"));
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        assertThat(outcome.out())
                .contains("model.dtype: auto -> bf16")
                .contains(
                        "quantization.load_in_4bit: true (the matrices of the blocks are nf4-double, other weights bf16)")
                .containsPattern("\\S+ on .+, [\\d,]+ parameters trained")
                .containsPattern("parameters trained, [1-9]\\d?\\.\\d\\d % of all")
                .containsPattern("step 25/25 .* tokens/s  \\d+\\.\\d\\d steps/s ")
                .containsPattern("loading took \\d+\\.\\d\\d s; starting (training|evaluation)")
                .containsPattern("training took \\d+\\.\\d\\d s; starting evaluation")
                .containsPattern("evaluation took \\d+\\.\\d\\d s")
                .contains("done: ");

        Path merged = folder.resolve("merged");
        outcome = run(List.of("merge", second.toString(), "--out", merged.toString(), "--device", "cpu", "--json"));
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        JsonNode proof = new JsonMapper().readTree(outcome.out());
        assertThat(proof.path("proved").booleanValue()).isTrue();
        assertThat(proof.path("trained_on").stringValue()).isEqualTo("nf4-double");
        assertThat(proof.path("merged_onto").stringValue()).isEqualTo("nf4-double");
        assertThat(merged.resolve("tokenizer.json")).isRegularFile();

        outcome = run(command(
                "eval",
                "--set",
                base,
                "--set",
                "evaluation.prompts=[\"def f1(x):\\n    return x + 1\\n\"]",
                "--set",
                "evaluation.language=python",
                "--adapter",
                second.toString(),
                "--samples",
                "4",
                "--json"));
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        JsonNode figures = new JsonMapper().readTree(outcome.out());
        assertThat(figures.path("documents").intValue()).isEqualTo(4);
        double before = figures.path("base").path("bits_per_byte").path("value").doubleValue();
        double after = figures.path("tuned").path("bits_per_byte").path("value").doubleValue();
        assertThat(after).isLessThan(before);
        outcome = run(command(
                "eval",
                "--set",
                base,
                "--set",
                "quantization.load_in_4bit=false",
                "--adapter",
                second.toString(),
                "--samples",
                "0",
                "--json"));
        assertThat(outcome.code()).isZero();
        assertThat(new JsonMapper()
                        .readTree(outcome.out())
                        .path("base")
                        .path("bits_per_byte")
                        .path("value")
                        .doubleValue())
                .as("the base in 16 bits is another than in NF4")
                .isNotEqualTo(before);
        assertThat(figures.path("tuned_minus_base")
                        .path("bits_per_byte")
                        .path("high")
                        .doubleValue())
                .isNegative();
        assertThat(figures.path("tuned").path("fim_line").path("samples").intValue())
                .isEqualTo(4);
        assertThat(figures.path("tuned").path("prompts").path("samples").intValue())
                .isEqualTo(1);
        assertThat(figures.path("tuned_minus_base").path("prompts").has("parse_rate"))
                .isTrue();
        assertThat(figures.path("prompts").get(0).path("base").path("text").isString())
                .isTrue();
        JsonNode scale = figures.path("orientation");
        assertThat(scale.path("kneser_ney_3_bits_per_byte").doubleValue()).isBetween(0.01, 8.0);
        assertThat(scale.path("ppm_5_bits_per_byte").doubleValue()).isBetween(0.01, 8.0);
        assertThat(scale.has("xz_9_bits_per_byte")).isTrue();
    }

    /** Evaluations and samples between and after the steps are not among the operations of a step. */
    @Test
    void aProfileIsOfStepsAlone() throws IOException {
        CommandOutcome outcome = run(command(
                "train",
                "--set",
                "model.pretrained_model=scratch",
                "--set",
                "training.max_steps=6",
                "--set",
                "training.eval_steps=1",
                "--output",
                folder.resolve("profiled").toString(),
                "--profile",
                "--json"));
        assertThat(outcome.code()).as(outcome.err()).isZero();
        JsonNode profile = outcome.out()
                .lines()
                .map(line -> new JsonMapper().readTree(line))
                .filter(event -> event.path("event").asString("").equals("profile"))
                .findFirst()
                .orElseThrow();
        assertThat(profile.path("steps").intValue()).isEqualTo(2);
        Map<String, Integer> calls = new HashMap<>();
        profile.path("operations")
                .forEach(row -> calls.put(
                        row.path("operation").stringValue(), row.path("calls").intValue()));
        assertThat(calls)
                .containsEntry("CrossEntropy", 1)
                .containsEntry("CrossEntropyGrad", 1)
                .containsEntry("Attention", 1)
                .containsEntry("AttentionGrad", 1);
    }

    @Test
    void printsTheEffectiveSettings() throws IOException {
        CommandOutcome outcome = run(command(
                "train",
                "--set",
                "model.pretrained_model=scratch",
                "--output",
                "nowhere",
                "--epochs",
                "7",
                "--device",
                "cpu",
                "--print-config"));
        assertThat(outcome.code()).isZero();
        assertThat(outcome.out())
                .contains("lora_enabled: false")
                .contains("mixed_precision: no")
                .containsPattern("num_epochs: 7\\R")
                .containsPattern("output_dir: \"?nowhere\"?\\R");
        assertThat(Path.of("nowhere")).doesNotExist();
    }

    @Test
    void aWrongSettingIsOneLineAndCodeTwo() throws IOException {
        CommandOutcome outcome = run(command("train", "--set", "training.max_step=3"));
        assertThat(outcome.code()).isEqualTo(2);
        assertThat(outcome.err())
                .isEqualToIgnoringNewLines(
                        "starforge: --set training.max_step=3: unknown key training.max_step; the nearest one is "
                                + "training.max_steps");
    }

    @Test
    void aDeviceThatIsNotThereIsAnError() throws IOException {
        CommandOutcome outcome = run(command("train", "--device", "mps", "--set", "model.pretrained_model=scratch"));
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err()).contains("metal");
    }

    @Test
    void theDoctorSaysReadyOrNot() throws IOException {
        CommandOutcome ready = run(command("doctor", "--set", "model.pretrained_model=scratch", "--json"));
        assertThat(ready.code()).isZero();
        assertThat(new JsonMapper().readTree(ready.out()).path("ready").stringValue())
                .isEqualTo("ready");
        CommandOutcome missing = run(command("doctor", "--set", "model.pretrained_model=bigcode/starcoder2-3b"));
        assertThat(missing.code()).isEqualTo(2);
        assertThat(missing.out())
                .contains("FAILS    model")
                .contains("memory     planned")
                .contains("(nf4-double and bf16)")
                .endsWith("not ready" + System.lineSeparator());
        assertThat(missing.out())
                .containsPattern("time +3.0B on this .*: about .* tokens/s")
                .containsPattern("versions +starforge .* \\(Java ");
        CommandOutcome endless = run(command(
                "doctor",
                "--set",
                "model.pretrained_model=scratch",
                "--set",
                "training.max_steps=2000000000",
                "--set",
                "model.context_window=64"));
        assertThat(endless.code()).isEqualTo(1);
        assertThat(endless.out())
                .containsPattern(
                        "warning +time .* take about \\d+ days; use a GPU, or a model of \\S+, which takes a day")
                .endsWith("ready, with warnings" + System.lineSeparator());
        CommandOutcome wrong = run(command("doctor", "--set", "training.seed=x"));
        assertThat(wrong.code()).isEqualTo(2);
        assertThat(wrong.out()).contains("FAILS    settings");
    }

    /** A model's own template; a preview shows what counts, and a run trains on it. */
    @Test
    void conversationsAreTrainedOn() throws IOException {
        Path model = folder.resolve("chat");
        Files.createDirectories(model);
        for (String name : List.of("config.json", "model.safetensors", "tokenizer.json")) {
            Files.copy(Path.of("..", "golden", "models", "qwen2", name), model.resolve(name));
        }
        Path data = folder.resolve("talk.jsonl");
        Files.writeString(
                data,
                "{\"messages\": [{\"role\": \"user\", \"content\": \"sum\"}, {\"role\": \"assistant\", \"content\": \"a + b\"}]}\n"
                        .repeat(4));
        List<String> train = List.of(
                "train",
                "--set",
                "model.pretrained_model=\"" + model + "\"",
                "--set",
                "model.context_window=64",
                "--set",
                "quantization.load_in_4bit=false",
                "--set",
                "training.max_steps=2",
                "--sequences",
                data.toString(),
                "--output",
                folder.resolve("talked").toString(),
                "--device",
                "cpu");
        CommandOutcome without = run(train);
        assertThat(without.code()).isEqualTo(1);
        assertThat(without.err()).contains("has no chat template, and data with messages needs one");
        Files.writeString(
                model.resolve("chat_template.jinja"),
                "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                        + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
        CommandOutcome shown =
                run(List.of("dataset", "--out", data.toString(), "--preview", "1", "--tokenizer", model.toString()));
        assertThat(shown.err()).isEmpty();
        assertThat(shown.out()).contains("<|im_start|>user\nsum<|im_end|>\n<|im_start|>assistant\n⟦a + b⟧⟦<|im_end|>⟧");
        CommandOutcome outcome = run(train);
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        assertThat(outcome.out()).contains("step 2/2");
    }

    @Test
    void theDoctorLooksAtARepository() throws IOException {
        CommandOutcome here =
                run(command("doctor", "--set", "model.pretrained_model=scratch", "--repo", folder.toString()));
        assertThat(here.code()).isEqualTo(2);
        assertThat(here.out()).containsPattern("FAILS +repository .*is not a git repository");
    }

    @Test
    void evaluationObeysOrRefusesTheSettings() throws IOException {
        Path model = folder.resolve("run/latest");
        assertThat(run(command(
                                "train",
                                "--set",
                                "model.pretrained_model=scratch",
                                "--set",
                                "training.max_steps=1",
                                "--output",
                                folder.resolve("run").toString()))
                        .code())
                .isZero();
        String base = "model.pretrained_model=\"" + model + "\"";
        assertThat(run(command("eval", "--set", base, "--set", "quantization.load_in_8bit=true", "--samples", "0"))
                        .code())
                .isZero();
        CommandOutcome plain =
                run(command("eval", "--set", base, "--set", "device.attention=plain", "--samples", "0", "--json"));
        assertThat(plain.code()).isZero();
        assertThat(plain.err()).contains("Attention runs as its expansion on cpu");
        CommandOutcome outcome = run(command("eval", "--set", base, "--set", "device.attention=flash"));
        assertThat(outcome.code()).isEqualTo(2);
        assertThat(outcome.err()).contains("device.attention");
    }

    @Test
    void mergingTakesNoFlagsThatItWouldIgnore() {
        for (String flag : List.of("--weights=bf16", "--dtype=bf16", "--kv-dtype=F16", "--no-fallback", "--exact")) {
            CommandOutcome outcome = run(List.of("merge", "run", "--out", "merged", flag));
            assertThat(outcome.code()).isEqualTo(2);
            assertThat(outcome.err()).contains("unknown option '" + flag + "'");
        }
    }
}
