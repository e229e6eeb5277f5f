package dev.starforge.train.quantize;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.data.Split;
import dev.starforge.model.ModelException;
import dev.starforge.model.convert.ImportanceMatrix;
import dev.starforge.model.file.Safetensors;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufFileType;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.text.tokenizer.Tokenizer;
import dev.starforge.train.TrainException;
import dev.starforge.train.merge.ModelQuantizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Importance matrices of golden models, against sums computed here, and what they do for a quantized model. */
final class CalibrationTest {
    private static final Path GOLDEN = Path.of("..", "golden");
    private static final Path MICRO = GOLDEN.resolve("gguf/micro-F32.gguf");
    private static final int TOKENS = 96;
    private static final Device DEVICE =
            Selection.choose("cpu").backend().open(new DeviceOptions(0, 0, Path.of("unused")));

    @TempDir
    Path folder;

    @AfterAll
    static void close() {
        DEVICE.close();
    }

    private static CalibrationText text(int seed, int sequences, int vocabulary) {
        List<int[]> chunks = IntStream.range(0, sequences)
                .mapToObj(s -> IntStream.range(0, TOKENS)
                        .map(i -> (int) (Philox.uniform(seed, s, i) * vocabulary))
                        .toArray())
                .toList();
        return new CalibrationText(Path.of("ids"), chunks);
    }

    private static ImportanceMatrix collect(Path model, CalibrationText text) {
        return Calibration.collect(model, text, DEVICE, Precision.FLOAT32, done -> {});
    }

    @Test
    void theFirstEntryIsTheSumOfSquaresOfTheNormalizedEmbeddings() {
        Path model = GOLDEN.resolve("models/llama2");
        CalibrationText text = text(1, 2, 256);
        ImportanceMatrix.Entry entry = collect(model, text).entries().get("blk.0.attn_q.weight");
        try (Safetensors file = Safetensors.open(model.resolve("model.safetensors"))) {
            float[] embeddings = file.floats("model.embed_tokens.weight");
            float[] norm = file.floats("model.layers.0.input_layernorm.weight");
            double[] expected = new double[norm.length];
            for (int[] chunk : text.chunks()) {
                for (int id : chunk) {
                    double squares = 0;
                    for (int c = 0; c < norm.length; c++) {
                        squares += Math.pow(embeddings[id * norm.length + c], 2);
                    }
                    for (int c = 0; c < norm.length; c++) {
                        double x = embeddings[id * norm.length + c] * norm[c];
                        expected[c] += x * x / (squares / norm.length + 1e-5);
                    }
                }
            }
            assertThat(entry.counts()).containsExactly(2 * TOKENS);
            for (int c = 0; c < norm.length; c++) {
                assertThat(entry.sums()[c]).isCloseTo(expected[c], within(1e-3 * expected[c] + 1e-6));
            }
        }
    }

    /** Every matrix of a block has an entry; each token counts once in a dense matrix and k times in a stack of experts. */
    @ParameterizedTest
    @CsvSource({"llama3, 0", "starcoder2, 0", "phi3, 0", "mixtral, 2", "qwen2_moe, 2"})
    void everyMatrixOfTheBlocksHasAnEntry(String name, int expertsPerToken) {
        ImportanceMatrix matrix = collect(GOLDEN.resolve("models").resolve(name), text(2, 1, 200));
        assertThat(matrix.entries().keySet()).contains("blk.0.attn_output.weight", "blk.1.attn_output.weight");
        matrix.entries().forEach((weight, entry) -> {
            double rows = IntStream.range(0, entry.counts().length)
                    .mapToDouble(i -> entry.counts()[i])
                    .sum();
            assertThat(rows).as(weight).isEqualTo(weight.contains("_exps") ? expertsPerToken * TOKENS : TOKENS);
        });
        assertThat(matrix.entries().keySet().stream().anyMatch(weight -> weight.contains("ffn_down_exps")))
                .isEqualTo(expertsPerToken > 0);
    }

    @Test
    void whatIsWrittenIsReadBack() {
        ImportanceMatrix matrix = collect(GOLDEN.resolve("models/mixtral"), text(3, 1, 200));
        Path file = folder.resolve("imatrix.gguf");
        matrix.write(file);
        ImportanceMatrix read = ImportanceMatrix.read(file);
        assertThat(read.entries().keySet()).isEqualTo(matrix.entries().keySet());
        assertThat(read.datasets()).containsExactly("ids");
        read.entries().forEach((name, entry) -> {
            assertThat(entry.counts()).isEqualTo(matrix.entries().get(name).counts());
            assertThat(entry.sums()).containsExactly(matrix.entries().get(name).sums(), within(1e-3));
        });
    }

    /** KL divergence falls with more bits, and the importance matrix lowers it. */
    @Test
    void fewerBitsDivergeMoreAndLessWithImportance() {
        Path imatrix = folder.resolve("imatrix.gguf");
        collect(MICRO, text(4, 8, 400)).write(imatrix);
        double q8 = divergence(GgufFileType.Q8_0, Optional.empty());
        double q4 = divergence(GgufFileType.Q4_K_S, Optional.empty());
        double q4Weighted = divergence(GgufFileType.Q4_K_S, Optional.of(imatrix));
        double q2 = divergence(GgufFileType.Q2_K, Optional.empty());
        double q2Weighted = divergence(GgufFileType.Q2_K, Optional.of(imatrix));
        assertThat(q8).isPositive().isLessThan(q4);
        assertThat(q4).isLessThan(q2);
        assertThat(q4Weighted).isLessThan(q4);
        assertThat(q2Weighted).isLessThan(q2);
    }

    private double divergence(GgufFileType type, Optional<Path> imatrix) {
        Path out = folder.resolve(type + (imatrix.isPresent() ? "-weighted" : "") + ".gguf");
        new ModelQuantizer(MICRO, type, imatrix, false, DEVICE).write(out, (tensor, done, total) -> {});
        QuantizationQuality quality =
                QuantizationQuality.measure(MICRO, out, text(5, 4, 400), DEVICE, Precision.FLOAT32, done -> {});
        assertThat(quality.tokens()).isEqualTo(4 * (TOKENS / 2 - 1));
        return quality.kl();
    }

    @Test
    void aModelDoesNotDivergeFromItself() {
        QuantizationQuality quality =
                QuantizationQuality.measure(MICRO, MICRO, text(6, 2, 400), DEVICE, Precision.FLOAT32, done -> {});
        assertThat(quality.kl()).isZero();
        assertThat(quality.sameTop()).isEqualTo(1);
        assertThat(quality.perplexity()).isEqualTo(quality.originalPerplexity());
    }

    @Test
    void matricesOfAnotherModelAndOtherFilesAreRefused() {
        Path imatrix = folder.resolve("imatrix.gguf");
        collect(GOLDEN.resolve("models/llama3"), text(7, 1, 200)).write(imatrix);
        Path out = folder.resolve("out.gguf");
        assertThatThrownBy(() -> new ModelQuantizer(MICRO, GgufFileType.Q4_K_M, Optional.of(imatrix), false, DEVICE)
                        .write(out, (tensor, done, total) -> {}))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("imatrix.gguf")
                .hasMessageContaining("of another model?");
        assertThat(out).doesNotExist();
        assertThatThrownBy(() -> ImportanceMatrix.read(MICRO))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("is not an importance matrix");
    }

    @Test
    void tooLittleTextIsRefused() throws IOException {
        Path file = Files.writeString(folder.resolve("short.txt"), "int x;");
        Tokenizer tokenizer = Tokenizer.read(GOLDEN.resolve("tokenizers/starcoder2/tokenizer.json"));
        assertThatThrownBy(() -> CalibrationText.read(file, Split.TRAIN, tokenizer, 100, 4))
                .isInstanceOf(TrainException.class)
                .hasMessageContaining("expected at least 2048");
    }

    @Test
    void theMatrixIsNamedInTheFile() {
        Path imatrix = folder.resolve("imatrix.gguf");
        collect(MICRO, text(8, 1, 400)).write(imatrix);
        Path out = folder.resolve("out.gguf");
        new ModelQuantizer(MICRO, GgufFileType.Q4_0, Optional.of(imatrix), false, DEVICE)
                .write(out, (tensor, done, total) -> {});
        try (GgufFile file = GgufFile.open(out)) {
            assertThat(file.string("quantize.imatrix.file")).isEqualTo("imatrix.gguf");
            assertThat(file.integer("quantize.imatrix.entries_count")).isEqualTo(7);
        }
    }
}
