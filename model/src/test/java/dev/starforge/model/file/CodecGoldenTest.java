package dev.starforge.model.file;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.model.gguf.GgufFile;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.codec.Fp4Groups;
import dev.starforge.tensor.codec.Fp8;
import dev.starforge.tensor.codec.Int4Gptq;
import dev.starforge.tensor.codec.Int4Packed;
import dev.starforge.tensor.codec.Int8Groups;
import dev.starforge.tensor.codec.Nf4;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The codecs against what the programs that own the formats computed; bit for bit unless said. */
final class CodecGoldenTest {
    private static final Path GOLDEN = Path.of("..", "golden");

    @ParameterizedTest
    @EnumSource(
            names = {"MXFP4", "NF4"},
            mode = EnumSource.Mode.EXCLUDE)
    void llamaCppsFilesDecodeExactly(BlockFormat format) {
        try (GgufFile file = GgufFile.open(GOLDEN.resolve("gguf/micro-" + format + ".gguf"));
                Safetensors expected = Safetensors.open(GOLDEN.resolve("gguf/expected.safetensors"))) {
            GgufFile.GgufTensorInfo stored = file.tensor("blk.0.attn_k.weight");
            assertThat(stored.format()).isEqualTo(format);
            float[] rows = expected.floats(format + ".attn_k_dequantized");
            float[] decoded = new float[rows.length];
            file.readFloats(stored, 0, decoded, 0, decoded.length);
            assertBitsEqual(decoded, rows);
            assertBitsEqual(Arrays.copyOf(file.readFloats("blk.0.attn_k.weight"), rows.length), rows);
        }
    }

    @ParameterizedTest
    @EnumSource(
            names = {"F32", "NF4"},
            mode = EnumSource.Mode.EXCLUDE)
    void anyBlockDecodesAsInLlamaCpp(BlockFormat format) {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/ggml.safetensors"))) {
            float[] expected = golden.floats(format + ".random_decoded");
            float[] decoded = new float[expected.length];
            format.decode(golden.bytes(format + ".random", "U8"), 0, decoded, 0, decoded.length);
            assertBitsEqual(decoded, expected);
        }
    }

    @ParameterizedTest
    @EnumSource(
            names = {"F32", "Q2_K", "Q3_K", "Q6_K", "NF4"},
            mode = EnumSource.Mode.EXCLUDE)
    void weightsEncodeAsInLlamaCpp(BlockFormat format) {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/ggml.safetensors"))) {
            assertThat(encode(format, golden.floats("w")).array())
                    .isEqualTo(golden.bytes(format + ".encoded", "U8").array());
        }
    }

    /** Where a scale rounds to zero the quants do not matter, and llama.cpp leaves what its search had last. */
    @ParameterizedTest
    @EnumSource(names = {"Q2_K", "Q3_K", "Q6_K"})
    void weightsEncodeAsInLlamaCppExceptValuesWithZeroScale(BlockFormat format) {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/ggml.safetensors"))) {
            float[] w = golden.floats("w");
            float[] ours = new float[w.length];
            float[] theirs = new float[w.length];
            format.decode(encode(format, w), 0, ours, 0, w.length);
            format.decode(golden.bytes(format + ".encoded", "U8"), 0, theirs, 0, w.length);
            for (int i = 0; i < w.length; i++) {
                assertThat(ours[i] == theirs[i]).as("element %d", i).isTrue();
            }
        }
    }

    /** Rows whose scales span four decades, one of zeros in part, with importance from 0 to 500. */
    @ParameterizedTest
    @EnumSource(names = {"Q2_K", "Q3_K", "Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q5_1", "Q5_K", "Q6_K"})
    void rowsEncodeWithImportanceAsInLlamaCpp(BlockFormat format) {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/imatrix.safetensors"))) {
            float[] w = golden.floats("w");
            float[] importance = golden.floats("importance");
            ByteBuffer encoded = ByteBuffer.allocate((int) format.bytes(w.length));
            for (int at = 0; at < w.length; at += importance.length) {
                format.encodeRow(w, at, importance, encoded, (int) format.bytes(at));
            }
            float[] ours = decoded(format, encoded, w.length);
            float[] theirs = decoded(format, golden.bytes(format + ".encoded", "U8"), w.length);
            for (int i = 0; i < w.length; i++) {
                assertThat(ours[i] == theirs[i]).as("element %d", i).isTrue();
            }
            assertThat(weightedError(w, ours, importance))
                    .isLessThan(0.75 * weightedError(w, decoded(format, encode(format, w), w.length), importance));
        }
    }

    private static double weightedError(float[] w, float[] decoded, float[] importance) {
        double sum = 0;
        for (int i = 0; i < w.length; i++) {
            double difference = w[i] - decoded[i];
            sum += importance[i % importance.length] * difference * difference;
        }
        return sum;
    }

    private static float[] decoded(BlockFormat format, ByteBuffer encoded, int count) {
        float[] values = new float[count];
        format.decode(encoded, 0, values, 0, count);
        return values;
    }

    /** What llama.cpp's quantizer made of a model in float32. */
    @ParameterizedTest
    @EnumSource(
            names = {"F32", "MXFP4", "NF4"},
            mode = EnumSource.Mode.EXCLUDE)
    void aModelQuantizesToTheBytesOfLlamaCpp(BlockFormat format) {
        try (GgufFile plain = GgufFile.open(GOLDEN.resolve("gguf/micro-F32.gguf"));
                GgufFile quantized = GgufFile.open(GOLDEN.resolve("gguf/micro-" + format + ".gguf"))) {
            for (GgufFile.GgufTensorInfo stored : quantized.tensors().values()) {
                if (stored.format() == format) {
                    ByteBuffer theirs = ByteBuffer.allocate((int) stored.bytes());
                    quantized.read(stored, 0, theirs);
                    assertThat(encode(format, plain.readFloats(stored.name())).array())
                            .as(stored.name())
                            .isEqualTo(theirs.array());
                }
            }
        }
    }

    private static ByteBuffer encode(BlockFormat format, float[] w) {
        ByteBuffer encoded = ByteBuffer.allocate((int) format.bytes(w.length));
        format.encode(w, 0, w.length, encoded, 0);
        return encoded;
    }

    @ParameterizedTest
    @CsvSource({"7, 256, 128", "5, 200, 128", "3, 64, 32", "4, 130, 64"})
    void int8Groups(int rows, int columns, int group) {
        String name = rows + "x" + columns + "g" + group;
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("int8_group.safetensors"))) {
            Int8Groups coded = Int8Groups.encode(golden.floats(name + ".w"), rows, columns, group);
            assertThat(coded.quants()).isEqualTo(golden.bytes(name + ".q", "I8").array());
            short[] scales = new short[coded.scales().length];
            golden.bytes(name + ".scale", "F16").asShortBuffer().get(scales);
            assertThat(coded.scales()).isEqualTo(scales);
            assertBitsEqual(coded.decode(), golden.floats(name + ".deq"));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"a", "b", "c"})
    void nf4WithFloat32Absmax(String name) {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/bitsandbytes.safetensors"))) {
            Nf4 coded = Nf4.encode(golden.floats(name + ".w"), Nf4.DEFAULT_BLOCK);
            assertThat(coded.quants())
                    .isEqualTo(golden.bytes(name + ".plain.q", "U8").array());
            assertBitsEqual(((Nf4.Absmax.Plain) coded.absmax()).values(), golden.floats(name + ".plain.absmax"));
            assertBitsEqual(coded.decode(), golden.floats(name + ".plain.deq"));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"a", "b", "c"})
    void nf4WithDoubleQuantization(String name) {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/bitsandbytes.safetensors"))) {
            BitsAndBytes.Nf4Weight stored = BitsAndBytes.read(golden, name + ".weight");
            assertThat(stored.shape()).isEqualTo(golden.tensor(name + ".w").shape());
            assertBitsEqual(stored.quants().decode(), golden.floats(name + ".deq"));

            Nf4 coded = Nf4.encodeDouble(golden.floats(name + ".w"), Nf4.DEFAULT_BLOCK);
            assertThat(coded.quants()).isEqualTo(stored.quants().quants());
            Nf4.Absmax.Nested ours = (Nf4.Absmax.Nested) coded.absmax();
            Nf4.Absmax.Nested theirs = (Nf4.Absmax.Nested) stored.quants().absmax();
            // The mean is summed in another order, so its last bit is free.
            assertThat(ours.offset()).isCloseTo(theirs.offset(), within(Math.ulp(theirs.offset())));
            assertThat(ours.quants()).isEqualTo(theirs.quants());
        }
    }

    @Test
    void theDynamicMapEqualsBitsAndBytes() {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/bitsandbytes.safetensors"))) {
            assertBitsEqual(Nf4.dynamicMap(), golden.floats("dynamic_map"));
        }
    }

    @Test
    void nvfp4EqualsCompressedTensors() {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/formats.safetensors"))) {
            Fp4Groups coded = Fp4Groups.encodeNv(golden.floats("nv.w"), 6, 96);
            assertBitsEqual(new float[] {coded.global()}, golden.floats("nv.weight_global_scale"));
            assertThat(coded.scales())
                    .isEqualTo(golden.bytes("nv.weight_scale", "U8").array());
            assertThat(coded.quants())
                    .isEqualTo(golden.bytes("nv.weight_packed", "U8").array());
            assertBitsEqual(coded.decode(), golden.floats("nv.deq"));
        }
    }

    @Test
    void packedInt4EqualsCompressedTensors() {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/formats.safetensors"))) {
            Int4Packed coded = Int4Packed.encode(golden.floats("packed.w"), 9, 70, 32, DType.BF16);
            assertThat(coded.packed()).isEqualTo(golden.ints("packed.weight_packed"));
            assertBitsEqual(coded.scales(), golden.floats("packed.weight_scale"));
            assertBitsEqual(coded.decode(), golden.floats("packed.deq"));
            Int4Packed shifted = new Int4Packed(
                    9, 70, coded.packed(), coded.scales(), golden.ints("asym.weight_zero_point"), coded.groups());
            assertBitsEqual(shifted.decode(), golden.floats("asym.deq"));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"gptq", "actorder"})
    void gptqEqualsAutoGptq(String name) {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/formats.safetensors"))) {
            Shape shape = golden.tensor(name + ".w").shape();
            int out = (int) shape.dim(0);
            int in = (int) shape.dim(1);
            short[] scales =
                    new short[(int) golden.tensor(name + ".scales").shape().size()];
            golden.bytes(name + ".scales", "F16").asShortBuffer().get(scales);
            Int4Gptq stored = new Int4Gptq(
                    in,
                    out,
                    golden.ints(name + ".qweight"),
                    golden.ints(name + ".qzeros"),
                    scales,
                    golden.ints(name + ".g_idx"));
            assertBitsEqual(stored.decode(), golden.floats(name + ".deq"));

            byte[] quants = new byte[in * out];
            byte[] zeros = new byte[scales.length];
            for (int o = 0; o < out; o++) {
                for (int i = 0; i < in; i++) {
                    quants[o * in + i] = (byte) stored.code(o, i);
                }
                for (int g = 0; g < scales.length / out; g++) {
                    zeros[g * out + o] = (byte) stored.zero(g, o);
                }
            }
            Int4Gptq packed = Int4Gptq.pack(quants, out, in, zeros, scales, stored.gIdx());
            assertThat(packed.qweight()).isEqualTo(stored.qweight());
            assertThat(packed.qzeros()).isEqualTo(stored.qzeros());
        }
    }

    @ParameterizedTest
    @EnumSource
    void fp8EqualsTorch(Fp8 format) {
        try (Safetensors golden = Safetensors.open(GOLDEN.resolve("codecs/formats.safetensors"))) {
            float[] values = golden.floats(format.name().toLowerCase() + ".values");
            for (int code = 0; code < 256; code++) {
                assertThat(Float.compare(format.widen((byte) code), values[code]))
                        .as("code %02x", code)
                        .isZero();
            }
            float[] x = golden.floats("fp8.x");
            byte[] expected =
                    golden.bytes("fp8." + format.name().toLowerCase(), "U8").array();
            for (int i = 0; i < x.length; i++) {
                assertThat(format.narrow(x[i])).as("%s", x[i]).isEqualTo(expected[i]);
            }
        }
    }

    private static void assertBitsEqual(float[] actual, float[] expected) {
        assertThat(bits(actual)).isEqualTo(bits(expected));
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        Arrays.setAll(bits, i -> Float.floatToRawIntBits(values[i]));
        return bits;
    }
}
