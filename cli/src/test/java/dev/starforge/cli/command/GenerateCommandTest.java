package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cli.model.EmbeddedModel;
import dev.starforge.cli.process.StandardInput;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** {@code starforge generate} as a user types it. */
final class GenerateCommandTest {
    private static final Path MODELS = Path.of("..", "golden", "models");
    private static final String MODEL = MODELS.resolve("starcoder2").toString();
    private static final String PROMPT = "def add(a, b):";

    @TempDir
    Path folder;

    private record Outcome(int code, String out, String err) {
        JsonNode json() {
            assertThat(err).isEmpty();
            return new JsonMapper().readTree(out);
        }

        String text() {
            assertThat(err).isEmpty();
            assertThat(out).endsWith(System.lineSeparator());
            return out.substring(0, out.length() - System.lineSeparator().length());
        }
    }

    /** At a terminal, on the reference device. */
    private static Outcome generate(String model, String... args) {
        return generate(new StandardInput(InputStream.nullInputStream(), true), new StringWriter(), model, args);
    }

    private static Outcome piped(String input, String... args) {
        byte[] bytes = input.getBytes(StandardCharsets.UTF_8);
        return generate(new StandardInput(new ByteArrayInputStream(bytes), false), new StringWriter(), MODEL, args);
    }

    private static Outcome generate(StandardInput input, StringWriter out, String model, String... args) {
        List<String> all = new ArrayList<>(List.of("generate", model));
        all.addAll(List.of(args));
        if (!all.contains("--device")) {
            all.addAll(List.of("--device", "reference"));
        }
        StringWriter err = new StringWriter();
        long[] clock = {0};
        CommandLine command = RootCommand.commandLine();
        command.getCommandSpec().removeSubcommand("generate");
        command.addSubcommand(new GenerateCommand(input, () -> clock[0] += 500_000_000))
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setExecutionExceptionHandler(command.getExecutionExceptionHandler())
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err));
        int code = command.execute(all.toArray(String[]::new));
        return new Outcome(code, out.toString(), err.toString());
    }

    private static List<Integer> ids(JsonNode list) {
        return StreamSupport.stream(list.spliterator(), false)
                .map(JsonNode::intValue)
                .toList();
    }

    private static String join(int[] ids) {
        return IntStream.of(ids).mapToObj(Integer::toString).collect(Collectors.joining(","));
    }

    private static Tokenizer tokenizer() {
        return Tokenizer.read(Path.of(MODEL, "tokenizer.json"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void weightsAsStoredSayWhatConvertedOnesSay(String device) {
        String model = MODELS.resolveSibling("gguf").resolve("micro-Q4_K.gguf").toString();
        String stored =
                generate(model, "--prompt-ids", "5,6,7", "--device", device).text();
        String converted = generate(model, "--prompt-ids", "5,6,7", "--device", device, "--weights", "f32")
                .text();
        assertThat(stored).isEqualTo(converted).hasSizeGreaterThan(32);
    }

    /** With activations as they are, the kernels are another matter than the text. */
    @ParameterizedTest
    @ValueSource(strings = {"--no-machine-code", "--hide-cpu-flags=avx512_vnni", "--hide-cpu-flags=avx512_vnni,avx2"})
    void lesserKernelsSayTheSame(String flag) {
        for (String type : List.of("Q8_0", "F16")) {
            String model = MODELS.resolveSibling("gguf")
                    .resolve("micro-" + type + ".gguf")
                    .toString();
            String[] args = {"--prompt-ids", "5,6,7", "--device", "cpu", "--exact"};
            String best = generate(model, args).text();
            String[] lesser = Arrays.copyOf(args, args.length + 1);
            lesser[args.length] = flag;
            assertThat(generate(model, lesser).text()).isEqualTo(best).hasSizeGreaterThan(8);
        }
    }

    @ParameterizedTest
    @CsvSource({
        "reference, --no-machine-code, cpu",
        "reference, --hide-cpu-flags=avx2, cpu",
        "reference, --hide-gpu-features=sm_90, cuda",
        "cpu, --hide-gpu-features=sm_90, cuda"
    })
    void flagsOfAnotherKindOfDeviceAreRefused(String device, String flag, String kind) {
        Outcome outcome = generate(MODEL, "--prompt-ids", "5,6,7", "--device", device, flag);
        assertThat(outcome.code()).isEqualTo(2);
        assertThat(outcome.err()).contains(": requires --device " + kind + ", but the device is " + device);
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void idsInIdsOut(String device) {
        try (SafetensorsFile expected = SafetensorsFile.open(Path.of(MODEL, "expected.safetensors"))) {
            int[] prompt = expected.ints("greedy_prompt");
            int[] all = expected.ints("greedy_ids");
            int[] wanted = Arrays.copyOfRange(all, prompt.length, all.length);
            Outcome outcome = generate(MODEL, "--prompt-ids", join(prompt), "--ignore-eos", "--device", device);
            assertThat(outcome.text()).isEqualTo(join(wanted));
            assertThat(outcome.code()).isZero();
            String text = generate(MODEL, "--prompt-ids", join(prompt), "--ignore-eos", "--no-ids")
                    .text();
            assertThat(text).isEqualTo(tokenizer().decode(wanted, true));
        }
    }

    @Test
    void textInTextOut() {
        String text = generate(MODEL, "--prompt", PROMPT).text();
        JsonNode json = generate(MODEL, "--prompt", PROMPT, "--json").json();
        assertThat(json.path("text").stringValue()).isEqualTo(text).isNotEmpty();
        List<Integer> ids = ids(json.path("ids"));
        assertThat(generate(MODEL, "--prompt", PROMPT, "--ids").text())
                .isEqualTo(ids.stream().map(Object::toString).collect(Collectors.joining(",")));
        assertThat(ids(json.path("prompt_ids")))
                .isEqualTo(
                        Arrays.stream(tokenizer().encode(PROMPT, true)).boxed().toList());
        assertThat(json.path("model").stringValue()).isEqualTo(MODEL);
        assertThat(json.path("architecture").stringValue()).isEqualTo("starcoder2");
        assertThat(json.path("device").stringValue()).isEqualTo("reference");
        assertThat(json.path("stop_reason").stringValue()).isEqualTo("MAX_TOKENS");
        assertThat(json.path("stop_sequence").isNull()).isTrue();
        assertThat(ids).hasSize(32);
        assertThat(json.path("seconds").doubleValue()).isEqualTo(0.5);
        assertThat(json.path("tokens_per_second").doubleValue()).isEqualTo(64);
    }

    @Test
    void standardInputIsAPrompt() {
        String wanted = generate(MODEL, "--prompt", PROMPT + "\n").text();
        assertThat(wanted).isNotEqualTo(generate(MODEL, "--prompt", PROMPT).text());
        assertThat(piped(PROMPT + "\n").text()).isEqualTo(wanted);
        assertThat(piped(PROMPT + "\n", "--prompt", "-").text()).isEqualTo(wanted);
        assertThat(piped("ignored", "--prompt", PROMPT + "\n").text()).isEqualTo(wanted);
    }

    @Test
    void standardInputMustBeText() {
        StandardInput latin =
                new StandardInput(new ByteArrayInputStream("café".getBytes(StandardCharsets.ISO_8859_1)), false);
        Outcome outcome = generate(latin, new StringWriter(), MODEL);
        assertThat(outcome.code()).isEqualTo(2);
        assertThat(outcome.err()).contains("standard input: expected UTF-8");
        assertThat(piped("").err()).contains("the prompt is empty");
    }

    @Test
    void everyTokenIsShownBeforeTheNextIsMade() {
        List<String> shown = new ArrayList<>();
        StringWriter out = new StringWriter() {
            @Override
            public void flush() {
                shown.add(toString());
            }
        };
        generate(
                new StandardInput(InputStream.nullInputStream(), true),
                out,
                MODEL,
                "--prompt-ids",
                "5",
                "--max-tokens",
                "4");
        for (int tokens = 1; tokens <= 4; tokens++) {
            String[] ids = out.toString().strip().split(",");
            assertThat(shown).contains(String.join(",", Arrays.copyOf(ids, tokens)));
        }
    }

    @Test
    void aStopStringEndsTheTextAcrossTokens() {
        String whole = generate(MODEL, "--prompt", PROMPT).text();
        Tokenizer tokenizer = tokenizer();
        for (int start = 0; start + 9 <= whole.length(); start += 5) {
            String stop = whole.substring(start, start + 9); // longer than a token
            assertThat(tokenizer.encode(stop, false).length).isGreaterThan(1);
            JsonNode json = generate(MODEL, "--prompt", PROMPT, "--stop", "never", "--stop", stop, "--json")
                    .json();
            assertThat(json.path("text").stringValue()).isEqualTo(whole.substring(0, whole.indexOf(stop)));
            assertThat(json.path("stop_reason").stringValue()).isEqualTo("STOP_SEQUENCE");
            assertThat(json.path("stop_sequence").stringValue()).isEqualTo(stop);
            assertThat(generate(MODEL, "--prompt", PROMPT, "--stop", stop).text())
                    .isEqualTo(json.path("text").stringValue());
        }
        String absent = whole.substring(whole.length() - 2) + "\u0000";
        assertThat(generate(MODEL, "--prompt", PROMPT, "--stop", absent).text()).isEqualTo(whole);
    }

    @Test
    void anyOfSeveralEndsOfTextEndsIt() throws IOException {
        copyFolder(Path.of(MODEL), folder);
        List<Integer> ids =
                ids(generate(MODEL, "--prompt", PROMPT, "--json").json().path("ids"));
        int end = ids.stream()
                .filter(id -> !id.equals(ids.getFirst()))
                .findFirst()
                .orElseThrow();
        Path config = folder.resolve("generation_config.json");
        Files.writeString(
                config, Files.readString(config).replace("\"eos_token_id\": 0", "\"eos_token_id\": [0, " + end + "]"));
        JsonNode json =
                generate(folder.toString(), "--prompt", PROMPT, "--json").json();
        List<Integer> until = ids.subList(0, ids.indexOf(end) + 1);
        assertThat(ids(json.path("ids"))).isEqualTo(until);
        assertThat(json.path("stop_reason").stringValue()).isEqualTo("EOS");
        int[] said = until.stream()
                .limit(until.size() - 1)
                .mapToInt(Integer::intValue)
                .toArray();
        assertThat(json.path("text").stringValue()).isEqualTo(tokenizer().decode(said, true));
        assertThat(ids(generate(folder.toString(), "--prompt", PROMPT, "--json", "--ignore-eos")
                        .json()
                        .path("ids")))
                .isEqualTo(ids);
    }

    @Test
    void aSeedDecidesTheText() {
        String[] seven = {"--prompt", PROMPT, "--temperature", "1.2", "--seed", "7"};
        String text = generate(MODEL, seven).text();
        assertThat(generate(MODEL, seven).text()).isEqualTo(text);
        assertThat(generate(MODEL, "--prompt", PROMPT, "--temperature", "1.2", "--seed", "8")
                        .text())
                .isNotEqualTo(text);
        assertThat(generate(MODEL, "--prompt", PROMPT, "--temperature", "0", "--seed", "7")
                        .text())
                .isEqualTo(generate(MODEL, "--prompt", PROMPT).text());
        assertThat(generate(MODEL, "--prompt", PROMPT, "--seed", "7").text())
                .isEqualTo(generate(MODEL, "--prompt", PROMPT, "--seed", "7", "--temperature", "1")
                        .text())
                .isNotEqualTo(generate(MODEL, "--prompt", PROMPT).text());
    }

    @ParameterizedTest
    @CsvSource({
        "--top-k, 2",
        "--top-p, 0.5",
        "--min-p, 0.3",
        "--typical, 0.4",
        "--repetition-penalty, 1.5",
        "--presence-penalty, 1.5",
        "--frequency-penalty, 1.5",
        "--temperature, 2",
    })
    void everySettingChangesTheText(String option, String value) {
        List<String> plain = new ArrayList<>(List.of("--prompt", PROMPT, "--seed", "1"));
        String without = generate(MODEL, plain.toArray(String[]::new)).text();
        plain.addAll(List.of(option, value));
        assertThat(generate(MODEL, plain.toArray(String[]::new)).text()).isNotEqualTo(without);
    }

    @Test
    void theLikeliestOfOneIsGreedy() {
        String greedy = generate(MODEL, "--prompt", PROMPT).text();
        for (String option : List.of("--top-k=1", "--top-p=1e-9", "--min-p=0.999999")) {
            assertThat(generate(MODEL, "--prompt", PROMPT, "--temperature", "1", option)
                            .text())
                    .as(option)
                    .isEqualTo(greedy);
        }
    }

    @Test
    void anAdapterIsHonoured() throws IOException {
        Path adapter = folder.resolve("adapter");
        copyFolder(Path.of(MODEL, "adapter"), adapter);
        Path config = adapter.resolve("adapter_config.json");
        Files.writeString(config, Files.readString(config).replace("\"lora_alpha\": 8", "\"lora_alpha\": 400"));
        assertThat(generate(MODEL, "--prompt", PROMPT, "--adapter", adapter.toString())
                        .text())
                .isNotEqualTo(generate(MODEL, "--prompt", PROMPT).text());
    }

    @Test
    void theMiddleIsAskedForWithTheModelsOwnTokens() {
        JsonNode json = generate(MODEL, "--fim", "a = ", " + c", "--json").json();
        Tokenizer tokenizer = tokenizer();
        List<Integer> wanted = new ArrayList<>(List.of(1));
        Arrays.stream(tokenizer.encode("a = ", false)).forEach(wanted::add);
        wanted.add(3);
        Arrays.stream(tokenizer.encode(" + c", false)).forEach(wanted::add);
        wanted.add(2);
        assertThat(ids(json.path("prompt_ids"))).isEqualTo(wanted);
        assertThat(generate(MODEL, "--fim", "a = ", " + c").text())
                .isEqualTo(json.path("text").stringValue());
        assertThat(generate(MODEL, "--fim", "a = ", "").code()).isZero();
    }

    @Test
    void withoutATokenizerThereAreIds() throws IOException {
        copyFolder(Path.of(MODEL), folder);
        Files.delete(folder.resolve("tokenizer.json"));
        String model = folder.toString();
        String[] ids = {"--prompt-ids", "5,6,7"};
        assertThat(generate(model, ids).text()).isEqualTo(generate(MODEL, ids).text());
        JsonNode json = generate(model, "--prompt-ids", "5,6,7", "--json").json();
        assertThat(json.path("text").isNull()).isTrue();
        assertThat(ids(json.path("ids"))).hasSize(32);
        assertRefused(generate(model, "--prompt", "x"), "a prompt of text needs a tokenizer; see --prompt-ids");
        assertRefused(generate(model, "--fim", "x", "y"), "a prompt of text needs a tokenizer; see --prompt-ids");
        assertRefused(generate(model, "--prompt-ids", "5", "--stop", "x"), "--stop needs a tokenizer");
        assertRefused(generate(model, "--prompt-ids", "5", "--no-ids"), "--no-ids needs a tokenizer");
    }

    private void assertRefused(Outcome outcome, String reason) {
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err())
                .startsWith("starforge: " + folder.resolve("tokenizer.json") + ": not found, but " + reason)
                .hasLineCount(1);
    }

    @Test
    void aBrokenTokenizerIsOneLine() throws IOException {
        copyFolder(Path.of(MODEL), folder);
        Files.writeString(folder.resolve("tokenizer.json"), "{\"model\": {}}");
        Outcome outcome = generate(folder.toString(), "--prompt", "x");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err())
                .startsWith("starforge: " + folder.resolve("tokenizer.json"))
                .hasLineCount(1);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "MODEL | 2 | missing prompt: pass --prompt, --prompt-ids or --fim",
                "MODEL --prompt x --prompt-ids 5 | 2 | mutually exclusive",
                "MODEL --prompt x --fim y z | 2 | mutually exclusive",
                "MODEL --fim x | 2 | --fim",
                "MODEL --fim a b --fim c d | 2 | --fim: expected PREFIX and SUFFIX, got 4 values",
                "MODEL --prompt-ids 5 --max-tokens 0 | 2 | --max-tokens: expected at least 1",
                "MODEL --prompt-ids 5 --max-tokens 256 | 2 | exceed the context length of the model, 256",
                "MODEL --prompt-ids 5 --max-tokens 2147483647 | 2 | exceed the context length of the model, 256",
                "MODEL --prompt-ids 5,x | 2 | --prompt-ids: expected a whole number, got x",
                "MODEL --prompt-ids 640 | 2 | token 640 is outside the vocabulary, size 640",
                "MODEL --prompt-ids -1 | 2 | token -1 is outside the vocabulary, size 640",
                "MODEL --prompt x --temperature 2.5 | 2 | --temperature: expected 0 to 2, got 2.5",
                "MODEL --prompt x --temperature warm | 2 | --temperature: expected a number, got warm",
                "MODEL --prompt x --top-k -1 | 2 | --top-k: expected 0 or more, got -1",
                "MODEL --prompt x --top-p 0 | 2 | --top-p: expected above 0 and at most 1, got 0.0",
                "MODEL --prompt x --min-p 1 | 2 | --min-p: expected at least 0 and below 1, got 1.0",
                "MODEL --prompt x --typical 2 | 2 | --typical-p: expected above 0 and at most 1, got 2.0",
                "MODEL --prompt x --repetition-penalty 0 | 2 | --repetition-penalty: expected 0.01 to 100.0, got 0.0",
                "MODEL --prompt x --presence-penalty 3 | 2 | --presence-penalty: expected -2 to 2, got 3.0",
                "MODEL --prompt x --frequency-penalty NaN | 2 | --frequency-penalty: expected -2 to 2, got NaN",
                "MODEL --prompt x --top-k -1 --top-p 2 | 2 | got -1; --top-p: expected",
                "MODEL --prompt x --seed 1.5 | 2 | --seed: expected a whole number, got 1.5",
                "MODEL --prompt x --stop= | 2 | --stop: expected strings of 1 to 128 characters, got one of 0",
                "nowhere --prompt-ids 5 | 1 | nowhere: model not found",
                "nowhere --prompt x | 1 | nowhere: model not found",
                "LLAMA --fim x y | 1 | its tokenizer has no fill-in-the-middle tokens; looked for <fim_prefix>",
                "MODEL --prompt-ids 5 --adapter nowhere | 1 | nowhere: does not exist; expected a run",
                "MODEL --prompt-ids 5 --device tpu | 2 | --device: expected one of auto, mps, ",
                "MODEL --prompt-ids 5 --device metal | 1 | device metal is not available:",
                "MODEL --prompt-ids 5 --weights I32 | 2 | expected stored or a weight type, got I32",
                "MODEL --prompt-ids 5 --weights q9 | 2 | expected stored or a weight type, got q9",
                "MODEL --prompt-ids 5 --threads -1 | 2 | --threads: expected at least 0 and at most 1024, got -1",
            })
    void wrongUseIsExplained(String line, int code, String message) {
        String[] words = line.replace("MODEL", MODEL)
                .replace("LLAMA", MODELS.resolve("llama2").toString())
                .split(" ");
        Outcome outcome = generate(words[0], Arrays.copyOfRange(words, 1, words.length));
        assertThat(outcome.err()).contains(message).doesNotContain("\tat ");
        assertThat(outcome.code()).isEqualTo(code);
        assertThat(outcome.out()).isEmpty();
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

    /** An untied head of which one row is broken: the logit of token 3 alone, or of all. */
    private Path broken(float value, boolean all) throws IOException {
        Path from = MODELS.resolve("starcoder2-untied-nowindow");
        Path copy = Files.createDirectory(folder.resolve(value + "-" + all));
        Files.copy(from.resolve("config.json"), copy.resolve("config.json"));
        List<SafetensorsFile.SafetensorsData> entries = new ArrayList<>();
        try (SafetensorsFile file = SafetensorsFile.open(from.resolve("model.safetensors"))) {
            for (String name : file.tensors().keySet()) {
                float[] values = file.readFloats(name);
                if (name.equals("lm_head.weight")) {
                    int width = (int) file.tensor(name).shape().last();
                    for (int row = 0; row < values.length / width; row++) {
                        values[row * width] = all || row == 3 ? value : values[row * width];
                    }
                }
                entries.add(SafetensorsFile.SafetensorsData.of(
                        name, file.tensor(name).shape(), values));
            }
        }
        SafetensorsFile.write(copy.resolve("model.safetensors"), entries);
        return copy;
    }

    @Test
    void keysAndValuesMayBeOfEightBits() {
        Outcome eight = generate(MODEL, "--prompt-ids", "5,6,7", "--device", "cpu", "--kv-dtype", "int8");
        assertThat(eight.code()).as(eight.err()).isZero();
        Outcome four = generate(MODEL, "--prompt-ids", "5,6,7", "--kv-dtype", "int4");
        assertThat(four.code()).isEqualTo(2);
        assertThat(four.err()).contains("--kv-dtype", "expected f32, bf16, f16 or int8, got int4");
    }

    @ParameterizedTest
    @CsvSource({"reference, NaN, false", "cpu, NaN, false", "cpu, NaN, true", "reference, Infinity, true"})
    void logitsThatAreNotFiniteAreAnError(String device, float value, boolean all) throws IOException {
        String model = broken(value, all).toString();
        for (List<String> choice :
                List.of(List.<String>of(), List.of("--temperature", "0.8"), List.of("--repetition-penalty", "1.5"))) {
            List<String> args = new ArrayList<>(List.of("--prompt-ids", "5,6,7", "--device", device));
            args.addAll(choice);
            Outcome outcome = generate(model, args.toArray(String[]::new));
            assertThat(outcome.code()).isEqualTo(1);
            assertThat(outcome.err())
                    .contains("no token can follow token 2 of the sequence", "check the weights")
                    .contains(all ? "logits" : "1 of 640 are not, the first is NaN of token 3")
                    .doesNotContain("\tat ");
        }
    }

    /** A tokenizer joins a line break with most of the indentation after it, so a prompt that ends there is torn. */
    @Test
    void nanoGoesOnAfterIndentationAndInsideWords() {
        String nano = EmbeddedModel.file(folder).toString();
        String[] options = {"--device", "cpu", "--max-tokens", "8", "--token-healing", "--prompt"};
        String function = "import os\n\n\ndef size(path):\n    \"\"\"Size of a file.\"\"\"\n";
        String whole = generate(nano, with(options, function)).text();
        assertThat(whole).startsWith("    return ");
        assertThat(whole.strip())
                .startsWith(generate(nano, with(options, function + "    "))
                        .text()
                        .strip()
                        .substring(0, 12));
        assertThat(generate(nano, with(options, "import java.util.Li")).text()).startsWith("st;");
        String torn = generate(nano, "--device", "cpu", "--max-tokens", "8", "--prompt", function)
                .text();
        assertThat(torn).doesNotStartWith("    ");
    }

    private static String[] with(String[] options, String last) {
        return Stream.concat(Stream.of(options), Stream.of(last)).toArray(String[]::new);
    }

    @Test
    void tokenHealingWithFillInTheMiddle() {
        String[] options = {"--fim", "int largest = 1;\nreturn lar", ";\n", "--max-tokens", "6", "--json"};
        Outcome plain = generate(MODEL, options);
        Outcome healed = generate(MODEL, with(options, "--token-healing"));
        assertThat(healed.code()).as(healed.err()).isZero();
        assertThat(healed.json().path("prompt_ids").size())
                .isLessThan(plain.json().path("prompt_ids").size());
    }
}
