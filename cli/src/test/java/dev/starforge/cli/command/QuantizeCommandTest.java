package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.text.Tokenizers;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import tools.jackson.databind.JsonNode;

/** Quantized files: of every architecture, byte for byte what llama.cpp makes, and refusals. */
final class QuantizeCommandTest {
    private static final Path GOLDEN = Path.of("..", "golden");

    private static final int[] TEXT = {3, 1, 4, 1, 5, 9, 2, 6};

    @TempDir
    Path folder;

    private static CommandOutcome run(Path model, String to, Path out, String... more) {
        return CommandOutcome.run(Stream.concat(
                        Stream.of("quantize", model.toString(), "--to", to, "--out", out.toString(), "--json"),
                        Stream.of(more))
                .toArray(String[]::new));
    }

    static Stream<Path> models() throws IOException {
        try (Stream<Path> all = Files.list(GOLDEN.resolve("models"))) {
            List<Path> models = all.sorted().toList();
            assertThat(models).hasSize(16);
            return models.stream();
        }
    }

    private static float[] logits(Path model) {
        try (Device device = Selection.choose("cpu").backend().open(new DeviceOptions(0, 0, Path.of("unused")));
                ModelFiles files = ModelFiles.open(model);
                Scope weights = new Scope(device);
                Scope step = new Scope(device)) {
            Model loaded = files.load(weights, Precision.FLOAT32);
            List<int[]> texts = List.of(TEXT);
            var ops = device.ops(step, Precision.FLOAT32, Fallback.FORBIDDEN);
            return device.floats(loaded.forward(ops, Batches.packed(loaded, step, texts), KvCache.NONE));
        }
    }

    @ParameterizedTest
    @MethodSource("models")
    void everyArchitectureComputesNearlyTheSameInEightBits(Path model) {
        Path out = folder.resolve("out.gguf");
        CommandOutcome outcome = run(model, "q8_0", out);
        assertThat(outcome.code()).as(outcome.err()).isZero();
        float[] before = logits(model);
        float[] after = logits(out);
        double[] errors = new double[TEXT.length];
        int vocabulary = before.length / TEXT.length;
        for (int token = 0; token < TEXT.length; token++) {
            double squares = 0;
            double lost = 0;
            for (int i = token * vocabulary; i < (token + 1) * vocabulary; i++) {
                squares += (double) before[i] * before[i];
                lost += Math.pow(before[i] - after[i], 2);
            }
            errors[token] = Math.sqrt(lost / squares);
        }
        Arrays.sort(errors); // some may have chosen another expert; a wrong layout of weights gives about 1
        assertThat(errors[TEXT.length / 2]).isPositive().isLessThan(0.1);
        JsonNode tensors = outcome.json().path("tensors");
        assertThat(tensors.size()).isGreaterThan(10);
        for (JsonNode tensor : tensors) {
            boolean rounded = tensor.path("type").stringValue().equals("q8_0");
            double error = tensor.path("relative_error").doubleValue();
            assertThat(error).isBetween(rounded ? 1e-4 : 0, rounded ? 0.01 : 1e-3);
            assertThat(tensor.path("worst_row_relative_error").doubleValue()).isGreaterThanOrEqualTo(error);
        }
        assertThat(Tokenizers.find(out).isPresent())
                .isEqualTo(Tokenizers.find(model).isPresent());
    }

    /** The goldens were quantized from the same numbers by the format's own reference. */
    @ParameterizedTest
    @CsvSource({
        "q8_0, Q8_0",
        "q4_0, Q4_0",
        "q4_1, Q4_1",
        "q5_0, Q5_0",
        "q5_1, Q5_1",
        "q3_k_s, Q3_K",
        "q4_k, Q4_K",
        "q5_k_s, Q5_K",
        "q6_k, Q6_K"
    })
    void blocksAreThoseOfTheGoldens(String to, String golden) {
        Path out = folder.resolve("out.gguf");
        CommandOutcome outcome = run(GOLDEN.resolve("gguf/micro-F32.gguf"), to, out);
        assertThat(outcome.code()).as(outcome.err()).isZero();
        int compared = 0;
        try (GgufFile ours = GgufFile.open(out);
                GgufFile theirs = GgufFile.open(GOLDEN.resolve("gguf/micro-" + golden + ".gguf"))) {
            assertThat(ours.tensors().keySet()).isEqualTo(theirs.tensors().keySet());
            for (GgufFile.GgufTensorInfo stored : ours.tensors().values()) {
                GgufFile.GgufTensorInfo expected = theirs.tensor(stored.name());
                if (stored.format() == expected.format()) {
                    ByteBuffer a = ByteBuffer.allocate(Math.toIntExact(stored.bytes()));
                    ByteBuffer b = ByteBuffer.allocate(a.capacity());
                    ours.read(stored, 0, a);
                    theirs.read(expected, 0, b);
                    assertThat(a.array()).as(stored.name()).isEqualTo(b.array());
                    compared++;
                }
            }
        }
        assertThat(compared).isGreaterThan(7);
    }

    @Test
    void rowsThatAreNoWholeBlocksFallBackAndItIsSaid() {
        Path out = folder.resolve("out.gguf");
        CommandOutcome outcome = run(GOLDEN.resolve("models/starcoder2"), "q4_k", out);
        assertThat(outcome.code()).as(outcome.err()).isZero();
        assertThat(outcome.json().path("fell_back").intValue()).isPositive();
        assertThat(outcome.out()).contains("\"instead_of\" : \"q4_k\"", "\"type\" : \"q5_0\"");
        assertThat(folder.resolve("out.gguf.report.json")).content().isEqualTo(outcome.out());
    }

    @Test
    void whatIsQuantizedIsNotQuantizedAgainUnasked() throws IOException {
        Path model = GOLDEN.resolve("gguf/micro-Q4_0.gguf");
        Path out = folder.resolve("out.gguf");
        CommandOutcome refused = run(model, "q8_0", out);
        assertThat(refused.code()).isEqualTo(1);
        assertThat(refused.err()).contains("quantized already", "--allow-requantize");
        try (Stream<Path> left = Files.list(folder)) {
            assertThat(left).isEmpty();
        }
        assertThat(run(model, "q8_0", out, "--allow-requantize").code()).isZero();
    }

    @Test
    void theSameTypeIsCopied() {
        Path model = GOLDEN.resolve("gguf/micro-Q8_0.gguf");
        CommandOutcome outcome = run(model, "q8_0", folder.resolve("out.gguf"));
        assertThat(outcome.code()).as(outcome.err()).isZero();
        assertThat(outcome.json().path("largest_relative_error").doubleValue()).isZero();
        assertThat(logits(folder.resolve("out.gguf"))).isEqualTo(logits(model));
    }

    @Test
    void typesAndNamesThatAreNotAreRefused() {
        Path model = GOLDEN.resolve("models/starcoder2");
        assertThat(run(model, "q7_k", folder.resolve("out.gguf")).err()).contains("q4_k_s, q4_k_m", ", got q7_k");
        assertThat(run(model, "q8_0", folder.resolve("out.bin")).err()).contains("expected a .gguf file");
    }

    /** Text is a file here; the built-in model has a tokenizer, and its rows are whole blocks of 32. */
    @Test
    void calibrationTextGivesAnImportanceMatrixAndHeldOutTextTheQuality() throws IOException {
        Path text = folder.resolve("text.txt");
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < 700; i++) {
            lines.append("    int value")
                    .append(i)
                    .append(" = compute(")
                    .append(i * 7)
                    .append(");\n");
        }
        Files.writeString(text, lines);
        Path out = folder.resolve("out.gguf");
        CommandOutcome outcome = run(
                Path.of("nano"),
                "q4_0",
                out,
                "--allow-requantize",
                "--calibration",
                text.toString(),
                "--evaluate",
                text.toString(),
                "--chunks",
                "4");
        assertThat(outcome.code()).as(outcome.err()).isZero();
        assertThat(folder.resolve("out.gguf.imatrix.gguf")).isRegularFile();
        JsonNode quality = outcome.json().path("quality");
        assertThat(quality.path("tokens").intValue()).isEqualTo(4 * 255);
        assertThat(quality.path("kl_divergence").doubleValue()).isBetween(1e-4, 0.2);
        assertThat(quality.path("same_top_token").doubleValue()).isBetween(0.7, 1.0);
        assertThat(outcome.json().path("tensors"))
                .anySatisfy(tensor -> assertThat(tensor.path("importance").booleanValue(false))
                        .isTrue());
    }

    @Test
    void optionsThatExcludeEachOtherAreRefused() {
        Path model = GOLDEN.resolve("models/starcoder2");
        CommandOutcome outcome =
                run(model, "q4_0", folder.resolve("out.gguf"), "--calibration", "a.txt", "--imatrix", "b.gguf");
        assertThat(outcome.code()).isEqualTo(2);
        assertThat(outcome.err()).contains("--calibration and --imatrix cannot be combined");
    }
}
