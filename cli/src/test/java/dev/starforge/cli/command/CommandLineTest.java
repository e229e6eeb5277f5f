package dev.starforge.cli.command;

import static dev.starforge.cli.command.CommandOutcome.run;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.file.SafetensorsFile;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;

/** Every command as a user types it. */
final class CommandLineTest {
    private static final String GOLDEN = Path.of("..", "golden").toString();
    private static final String MODEL =
            Path.of("..", "golden", "models", "starcoder2").toString();

    @TempDir
    Path folder;

    @ParameterizedTest
    @CsvSource({"reference, 1e-4, 0", "cpu, 2e-3, 10"})
    void verifyPassesOnEveryGolden(String device, double tolerance, int replays) {
        CommandOutcome outcome = run(
                "verify", GOLDEN, "--device", device, "--json", "--no-fallback", "--replays", String.valueOf(replays));
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        JsonNode root = outcome.json();
        assertThat(root.path("pass").booleanValue()).isTrue();
        List<String> names = new ArrayList<>();
        for (JsonNode model : root.path("models")) {
            names.add(model.path("name").stringValue());
            double bound = tolerance * model.path("logits_range").doubleValue();
            for (String field : List.of(
                    "logits_max_abs_error",
                    "long_logits_max_abs_error",
                    "adapter_logits_max_abs_error",
                    "trained_logits_max_abs_error")) {
                assertThat(model.path(field).doubleValue()).as(field).isLessThanOrEqualTo(bound);
            }
            for (String field : List.of("base_loss_error", "adapter_loss_error", "train_loss_max_error")) {
                assertThat(model.path(field).doubleValue()).as(field).isLessThanOrEqualTo(1e-4);
            }
            assertThat(model.path("grad_max_error").doubleValue()).isLessThanOrEqualTo(1e-3);
            assertThat(model.path("greedy_match").booleanValue()).isTrue();
            if (replays > 0) { // of the reference, which records nothing, all but this is asked
                assertThat(model.path("replays_identical").booleanValue()).isTrue();
                assertThat(model.path("shared_steps_identical").booleanValue()).isTrue();
            }
        }
        assertThat(names).hasSize(16).contains("deepseek_v3", "phi3-longrope", "qwen3_moe", "starcoder2");
        assertThat(root.path("gguf").size()).isEqualTo(13);
        for (JsonNode gguf : root.path("gguf")) {
            double bound = gguf.path("budget").doubleValue()
                    * gguf.path("logits_range").doubleValue();
            assertThat(gguf.path("stored_logits_max_abs_error").doubleValue())
                    .as(gguf.path("type").stringValue())
                    .isGreaterThan(0)
                    .isLessThanOrEqualTo(bound);
            if (gguf.path("type").stringValue().startsWith("Q")) {
                assertThat(gguf.path("stored_weight_bytes").longValue())
                        .isLessThan(gguf.path("weight_bytes").longValue() * 3 / 10);
            }
        }
    }

    @Test
    void weightsTakeTheMemoryOfTheirType() {
        String model = Path.of(GOLDEN, "gguf", "micro-Q4_K.gguf").toString();
        long[] bytes = Stream.of("stored", "q8_0", "BF16", "f32")
                .mapToLong(type -> run("inspect", model, "--plan", "--device", "cpu", "--json", "--weights", type)
                        .json()
                        .path("plan")
                        .path("weight_bytes")
                        .longValue())
                .toArray();
        assertThat(bytes).isSorted().doesNotHaveDuplicates();
        JsonNode unasked =
                run("inspect", model, "--plan", "--device", "cpu", "--json").json();
        assertThat(unasked.path("plan").path("weight_bytes").longValue()).isEqualTo(bytes[0]);
    }

    @Test
    void verifyFailsWhenTheModelIsNotTheOneExpected() throws IOException {
        Path copy = folder.resolve("models/starcoder2");
        copyFolder(Path.of(MODEL), copy);
        Path config = copy.resolve("config.json");
        Files.writeString(
                config, Files.readString(config).replace("\"norm_epsilon\": 1e-05", "\"norm_epsilon\": 2e-02"));
        CommandOutcome outcome = run("verify", folder.toString(), "--device", "reference", "--replays", "0");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.out()).startsWith("FAIL model starcoder2");
    }

    @Test
    void verifyDoesNotPassOnNaN() throws IOException {
        Path copy = folder.resolve("models/starcoder2-untied-nowindow");
        copyFolder(Path.of(GOLDEN, "models", "starcoder2-untied-nowindow"), copy);
        Path weights = copy.resolve("model.safetensors");
        List<SafetensorsFile.SafetensorsData> entries = new ArrayList<>();
        try (SafetensorsFile file = SafetensorsFile.open(weights)) {
            for (String name : file.tensors().keySet()) {
                float[] values = file.readFloats(name);
                if (name.equals("lm_head.weight")) {
                    values[0] = Float.NaN; // the logit of token 0 alone
                }
                entries.add(SafetensorsFile.SafetensorsData.of(
                        name, file.tensor(name).shape(), values));
            }
        }
        SafetensorsFile.write(weights, entries);
        JsonNode model = run("verify", folder.toString(), "--device", "reference", "--replays", "0", "--json")
                .json()
                .path("models")
                .get(0);
        assertThat(model.path("pass").booleanValue()).isFalse();
        assertThat(model.path("logits_max_abs_error").asString()).isEqualTo("NaN");
    }

    @Test
    void verifyNamesAModelItCannotLoadAndGoesOn() throws IOException {
        copyFolder(Path.of(MODEL), folder.resolve("models/starcoder2"));
        copyFolder(Path.of(MODEL), folder.resolve("models/broken"));
        Files.delete(folder.resolve("models/broken/model.safetensors"));
        CommandOutcome outcome = run("verify", folder.toString(), "--device", "cpu", "--json");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.json().path("models").get(0).path("error").stringValue())
                .contains("broken: expected a folder with model.safetensors or model.safetensors.index.json");
        assertThat(outcome.json().path("models").get(1).path("pass").booleanValue())
                .isTrue();
    }

    @Test
    void dumpHasTheNamesAndShapesOfTheExpected() {
        CommandOutcome outcome =
                run("verify", GOLDEN, "--only", "starcoder2", "--device", "cpu", "--dump", folder.toString());
        assertThat(outcome.code()).isZero();
        try (SafetensorsFile ours = SafetensorsFile.open(folder.resolve("starcoder2.safetensors"));
                SafetensorsFile expected = SafetensorsFile.open(Path.of(MODEL, "expected.safetensors"))) {
            assertThat(ours.tensors().keySet())
                    .containsAll(List.of("logits", "long_logits_last8", "greedy_ids", "adapter_logits"))
                    .contains("grad.model.layers.0.self_attn.q_proj.lora_A.weight", "trained_adapter_logits");
            assertThat(expected.tensors().keySet()).containsAll(ours.tensors().keySet());
            ours.tensors()
                    .forEach((name, tensor) -> assertThat(tensor.shape())
                            .isEqualTo(expected.tensor(name).shape()));
            assertThat(ours.ints("greedy_ids")).isEqualTo(expected.ints("greedy_ids"));
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "verify nowhere | 1 | nowhere: expected a folder that contains models/",
                "verify GOLDEN --only bert | 2 | --only: expected names among deepseek_v2",
                "inspect nowhere | 1 | nowhere: model not found",
                "fly | 2 | unknown command 'fly'",
                "genrate | 2 | unknown command 'genrate'; did you mean 'generate'?",
                "generate MODEL --tempratur 1 | 2 | unknown option '--tempratur'; did you mean '--temperature'?",
                "dataset --out x --previw=3 | 2 | unknown option '--previw=3'; did you mean '--preview'?",
                "devices now | 2 | unexpected argument 'now'",
                "generate MODEL --prompt x --threads -3 | 2 | --threads: expected at least 0 and at most 1024, got -3",
                "logits MODEL --ids 1 --out x --device-index -1 | 2 | --device-index: expected at least 0, got -1",
                "generate MODEL --prompt x --temperature NaN | 2 | --temperature: expected 0 to 2, got NaN",
                "inspect MODEL --plan --context 0 | 2 | --context: expected a positive number",
                "inspect MODEL --plan --context 2000000000 | 2 | --context: expected at most ",
                "bench MODEL --prompt-tokens 2000000000 --gen-tokens 2000000000 | 2 | 4000000000 tokens exceed",
                "bench --random tiny --repeat 0 | 2 | expected at least 1",
                "logits MODEL --ids IDS --out x | 2 | --ids: 300 tokens exceed the context length of the model, ",
                "worker --worker-id a --port 0 --model missing | 1 | missing: model not found",
                "worker --port 0 --model MODEL | 2 | --worker-id",
                "worker --worker-id a --port 0 --model MODEL --callback-url here | 2 | --callback-url: expected"
                        + " http://HOST",
                "worker --worker-id a --port 0 --model MODEL --callback-url x --no-callback | 2 | mutually exclusive",
                "worker --worker-id a --port 0 --model MODEL --metal-device 0 | 4 | metal",
                "worker --worker-id a --model MODEL --port 0 --callback-url http://localhost:9999 --metal-device 0 | 4"
                        + " | metal",
                "devices --device accelerate | 2 | --device accelerate: not supported",
                "train --device accelerate | 2 | --device accelerate: not supported",
                "tune --device accelerate | 2 | --device accelerate: not supported",
                "dataset --out x --preview -3 | 2 | --preview: expected at least 1, got -3",
                "dataset --out x --repo . --threads -3 | 2 | key dataset.threads: expected whole number 0..1024, got"
                        + " -3",
            })
    void wrongUseIsExplained(String line, int code, String message) {
        CommandOutcome outcome = run(line.replace("MODEL", MODEL)
                .replace("GOLDEN", GOLDEN)
                .replace("IDS", "1" + ",1".repeat(299))
                .split(" "));
        assertThat(outcome.err()).contains(message).doesNotContain("\tat ");
        assertThat(outcome.code()).isEqualTo(code);
    }

    @Test
    void devicesSaysWhatIsThereAndWhy() {
        CommandOutcome outcome = run("devices");
        assertThat(outcome.code()).isZero();
        assertThat(outcome.out())
                .contains("Device Backend Summary", "Platform: ", "Device: ", "Attention Backend: ")
                .contains("Supports bf16: ", "Metal FlashAttention: ", "Chosen: ", "Not chosen: reference");
        JsonNode json = run("devices", "--json").json();
        List<String> names = new ArrayList<>();
        json.path("backends").forEach(backend -> {
            names.add(backend.path("name").stringValue());
            assertThat(backend.path("reason").stringValue()).isNotEmpty();
            assertThat(backend.path("status").stringValue()).isIn("ready", "pre-release");
        });
        assertThat(names).containsExactlyInAnyOrder("cuda", "metal", "cpu", "reference");
        String selected = json.path("selected").stringValue();
        assertThat(names).contains(selected);
        assertThat(outcome.out()).contains(selected.equals("cpu") ? "\nMemory: " : "\nMax VRAM: ");
    }

    @Test
    void inspectDescribesAndPlans() {
        JsonNode json = run("inspect", MODEL, "--json", "--tensors", "--plan", "--context", "100")
                .json();
        assertThat(json.path("architecture").stringValue()).isEqualTo("starcoder2");
        assertThat(json.path("parameters").longValue()).isEqualTo(95584);
        assertThat(json.path("tensors").size()).isGreaterThan(20);
        JsonNode plan = json.path("plan");
        long kv = 8L * 16 * 2 * 16 * 2 * 2
                * 2; // 7 blocks of 16 and the sink, 2 heads of 16, float16, keys, values, 2 layers
        assertThat(plan.path("kv_bytes").longValue()).isEqualTo(kv);
        assertThat(plan.path("weight_bytes").longValue()).isGreaterThan(95584 * 4L);
        assertThat(run("inspect", MODEL).out()).contains("architecture: starcoder2");
    }

    @Test
    void helpTeaches() {
        List<String> commands = RootCommand.commandLine().getSubcommands().entrySet().stream()
                .filter(command ->
                        !command.getValue().getCommandSpec().usageMessage().hidden())
                .map(Map.Entry::getKey)
                .toList();
        assertThat(commands).hasSize(26);
        PrintStream before = System.err;
        ByteArrayOutputStream warnings = new ByteArrayOutputStream();
        System.setErr(new PrintStream(warnings, true)); // where picocli complains about a text it cannot format
        try {
            for (String command : commands) {
                CommandOutcome outcome = run(command, "--help");
                assertThat(outcome.code()).isZero();
                assertThat(outcome.err()).isEmpty();
                assertThat(outcome.out()).contains("Examples:", "  starforge " + command);
            }
        } finally {
            System.setErr(before);
        }
        assertThat(warnings.toString()).isEmpty();
    }

    @Test
    void helpListsEachCommandOnOneLineOfAtMost80Columns() {
        CommandOutcome help = run("--help");
        for (String name : RootCommand.commandLine().getSubcommands().keySet()) {
            assertThat(help.out()).containsPattern("(?m)^  " + name + " +[A-Z].*[a-zA-Z]$");
        }
        assertThat(help.out().lines()).allMatch(line -> line.length() <= 80);
        assertThat(help.out())
                .contains("Tune and train:", "Run and serve:", "Models and files:", "Machine and program:");
    }

    @Test
    void helpAndVersionAreCommands() {
        assertThat(run("help")).isEqualTo(run("--help"));
        assertThat(run("help", "tune")).isEqualTo(run("tune", "--help"));
        assertThat(run("version")).isEqualTo(run("--version"));
        CommandOutcome unknown = run("help", "tun");
        assertThat(unknown.code()).isEqualTo(2);
        assertThat(unknown.err()).contains("unknown command 'tun'; did you mean 'tune'?");
    }

    private static void copyFolder(Path from, Path to) throws IOException {
        try (Stream<Path> files = Files.walk(from)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                Path copy = to.resolve(from.relativize(file));
                Files.createDirectories(copy.getParent());
                Files.copy(file, copy);
            }
        }
    }
}
