package dev.starforge.model.gguf;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.ModelException;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What is written reads back; llama.cpp's own files are written again byte for byte; no head gets past {@code open} that is wrong. */
final class GgufFileTest {
    private static final Path GOLDEN = Path.of("..", "golden", "gguf");

    @TempDir
    Path folder;

    private static Map<String, GgufValue> everyKindOfValue() {
        Map<String, GgufValue> metadata = new LinkedHashMap<>();
        metadata.put("text", GgufValue.string("grüße"));
        metadata.put("flag", GgufValue.bool(true));
        metadata.put("u8", new GgufValue.IntValue(GgufValue.GgufValueType.UINT8, 255));
        metadata.put("i8", new GgufValue.IntValue(GgufValue.GgufValueType.INT8, -128));
        metadata.put("u16", new GgufValue.IntValue(GgufValue.GgufValueType.UINT16, 65535));
        metadata.put("i16", new GgufValue.IntValue(GgufValue.GgufValueType.INT16, -32768));
        metadata.put("u32", GgufValue.u32(-1));
        metadata.put("i32", new GgufValue.IntValue(GgufValue.GgufValueType.INT32, -7));
        metadata.put("u64", new GgufValue.IntValue(GgufValue.GgufValueType.UINT64, -1));
        metadata.put("i64", new GgufValue.IntValue(GgufValue.GgufValueType.INT64, Long.MIN_VALUE));
        metadata.put("f32", GgufValue.f32(0.1f));
        metadata.put("f64", new GgufValue.FloatValue(GgufValue.GgufValueType.FLOAT64, 0.1));
        metadata.put("texts", new GgufValue.StringArray(List.of("a", "", "ĠĊ")));
        metadata.put("floats", GgufValue.NumberArray.of(1.5f, -2));
        metadata.put("ints", GgufValue.NumberArray.of(1, -2, 3));
        metadata.put(
                "flags", new GgufValue.NumberArray(GgufValue.GgufValueType.BOOL, ByteBuffer.wrap(new byte[] {1, 0})));
        metadata.put("empty", new GgufValue.NumberArray(GgufValue.GgufValueType.UINT64, ByteBuffer.allocate(0)));
        return metadata;
    }

    @Test
    void writtenFilesReadBack() {
        Path path = folder.resolve("a.gguf");
        float[] values = gaussian(2 * 3 * 64);
        GgufWriter.write(
                path,
                everyKindOfValue(),
                List.of(
                        GgufWriter.GgufEntry.of("x", BlockFormat.F32, Shape.of(2, 3, 64), values),
                        GgufWriter.GgufEntry.of("one", BlockFormat.F16, Shape.of(1), 3),
                        GgufWriter.GgufEntry.of("q", BlockFormat.Q8_0, Shape.of(6, 64), values),
                        GgufWriter.GgufEntry.of("none", BlockFormat.BF16, Shape.of(0, 5), new float[0])));
        try (GgufFile file = GgufFile.open(path)) {
            assertThat(file.version()).isEqualTo(3);
            assertThat(file.metadata()).isEqualTo(everyKindOfValue());
            assertThat(file.metadata().keySet())
                    .containsExactlyElementsOf(everyKindOfValue().keySet());
            assertThat(file.tensors().keySet()).containsExactly("x", "one", "q", "none");
            assertThat(file.tensor("x").shape()).isEqualTo(Shape.of(2, 3, 64));
            assertThat(file.readFloats("x")).isEqualTo(values);
            assertThat(file.readFloats("one")).containsExactly(3);
            assertThat(file.readFloats("none")).isEmpty();
            float[] piece = new float[32];
            file.readFloats(file.tensor("q"), 64, piece, 0, 32);
            for (int i = 0; i < 32; i++) {
                assertThat(piece[i]).isBetween(values[64 + i] - 0.02f, values[64 + i] + 0.02f);
            }
            assertThat(file.string("text")).isEqualTo("grüße");
            assertThat(file.string("missing", "else")).isEqualTo("else");
            assertThat(file.integer("i32")).isEqualTo(-7);
            assertThat(file.integer("missing", 4)).isEqualTo(4);
            assertThat(file.number("f64")).isEqualTo(0.1);
            assertThat(file.number("u8")).isEqualTo(255);
            assertThat(file.bool("flag", false)).isTrue();
            assertThat(file.strings("texts")).containsExactly("a", "", "ĠĊ");
            assertThat(file.numbers("ints").integer(1)).isEqualTo(-2);
            assertThat(file.numbers("floats").number(0)).isEqualTo(1.5);
            assertThat(file.numbers("flags").integer(0)).isEqualTo(1);
            assertThat(file.numbers("empty").size()).isZero();
            assertThatThrownBy(() -> file.tensor("y")).hasMessageContaining("has no tensor y");
            assertThatThrownBy(() -> file.readFloats(file.tensor("q"), 64, new float[384], 0, 384))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining("asked for 408 bytes at 68 of 408");
            assertThatThrownBy(() -> file.string("i32"))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining("metadata i32: expected a string, got IntValue[type=INT32, value=-7]");
            assertThatThrownBy(() -> file.integer("u32")).hasMessageContaining("below 2^31");
            assertThatThrownBy(() -> file.integer("none")).hasMessageContaining("got nothing");
        }
        assertThat(folder).isDirectoryNotContaining("glob:**.partial");
    }

    /** Every type, every value, every padding byte as llama.cpp puts them. */
    @ParameterizedTest
    @EnumSource(
            names = {"MXFP4", "NF4"},
            mode = EnumSource.Mode.EXCLUDE)
    void llamaCppsFilesAreWrittenAgainByteForByte(BlockFormat format) throws IOException {
        Path theirs = GOLDEN.resolve("micro-" + format + ".gguf");
        Path ours = folder.resolve("again.gguf");
        try (GgufFile file = GgufFile.open(theirs)) {
            List<GgufWriter.GgufEntry> entries = new ArrayList<>();
            for (GgufFile.GgufTensorInfo stored : file.tensors().values()) {
                entries.add(new GgufWriter.GgufEntry(stored.name(), stored.format(), stored.shape(), out -> {
                    ByteBuffer bytes = ByteBuffer.allocate((int) stored.bytes());
                    file.read(stored, 0, bytes);
                    out.write(bytes.flip());
                }));
            }
            GgufWriter.write(ours, file.metadata(), entries);
        }
        assertThat(Files.mismatch(theirs, ours)).isEqualTo(-1);
    }

    @Test
    void version2AndAnotherAlignmentAreRead() throws IOException {
        Path path = new RawGguf()
                .int32(GgufFile.MAGIC)
                .int32(2)
                .int64(1)
                .int64(1)
                .pair("general.alignment", 8)
                .tensor("x", 0, 0, 1)
                .save(folder.resolve("v2.gguf"));
        long head = Files.size(path);
        Files.write(path, new byte[(int) (Math.ceilDiv(head, 8) * 8 - head)], StandardOpenOption.APPEND);
        Files.write(path, new byte[] {0, 0, (byte) 0x80, 0x3f}, StandardOpenOption.APPEND);
        try (GgufFile file = GgufFile.open(path)) {
            assertThat(file.version()).isEqualTo(2);
            assertThat(file.readFloats("x")).containsExactly(1);
        }
    }

    static Stream<Arguments> wrongHeads() {
        return Stream.of(
                wrong("bad magic", new RawGguf().int32(0x46554746).int32(3), "offset 0: expected the letters GGUF"),
                wrong("version 0", new RawGguf().int32(GgufFile.MAGIC).int32(0), "offset 4: version 0"),
                wrong(
                        "version 1",
                        new RawGguf().int32(GgufFile.MAGIC).int32(1),
                        "offset 4: version 1, expected 2 or 3"),
                wrong("future version", new RawGguf().int32(GgufFile.MAGIC).int32(4), "version 4"),
                wrong("negative version", new RawGguf().int32(GgufFile.MAGIC).int32(-1), "version 4294967295"),
                wrong("big-endian", new RawGguf().int32(GgufFile.MAGIC).int32(0x03000000), "big-endian (version 3"),
                wrong("pairs beyond the file", RawGguf.head(0, 1L << 40), "offset 16: number of metadata pairs"),
                wrong("pairs beyond 2^63", RawGguf.head(0, -1), "got 18446744073709551615"),
                wrong("tensors beyond the file", RawGguf.head(1L << 40, 0), "offset 8: number of tensors"),
                wrong("tensors beyond 2^63", RawGguf.head(Long.MIN_VALUE, 0), "got 9223372036854775808"),
                wrong("pair missing", RawGguf.head(0, 1), "number of metadata pairs: expected a count of 0..0"),
                wrong(
                        "key beyond the file",
                        pairs().int64(1L << 30).bytes(new byte[9]),
                        "metadata key: expected a count"),
                wrong("key beyond 2^63", pairs().int64(-1).bytes(new byte[9]), "metadata key: expected a count"),
                wrong("empty key", pairs().int64(0).int32(4).int32(1), "metadata key ''"),
                wrong("same key twice", RawGguf.head(0, 2).pair("a", 1).pair("a", 2), "metadata key 'a'"),
                wrong("unknown value type", pairs().string("a").int32(13).int64(0), "type 13, expected 0..12"),
                wrong("negative value type", pairs().string("a").int32(-1).int64(0), "type 4294967295"),
                wrong("value cut off", pairs().string("abcdef").int32(10).int32(0), "abcdef takes 8 bytes, 4 are left"),
                wrong(
                        "string of a gigabyte",
                        pairs().string("a").int32(8).int64(1L << 30),
                        "value of a: expected a count"),
                wrong("string beyond 2^63", pairs().string("a").int32(8).int64(-8), "value of a: expected a count"),
                wrong("array of arrays", pairs().string("a").int32(9).int32(9).int64(0), "arrays of arrays"),
                wrong("list beyond the file", list(4, 1L << 32), "a: expected a count of 0..4"),
                wrong("list whose bytes wrap", list(10, 1L << 61), "a: expected a count of 0..2"),
                wrong("list beyond 2^63", list(0, -1), "a: expected a count of 0.."),
                wrong("strings beyond the file", list(8, 1 << 20), "a: expected a count of 0..2"),
                wrong(
                        "string in a list beyond the file",
                        pairs().string("a").int32(9).int32(8).int64(1).int64(1 << 20),
                        "a: expected a count of 0.."),
                wrong("alignment 0", aligned(0), "general.alignment: expected a UINT32 power of two"),
                wrong("alignment 24", aligned(24), "general.alignment"),
                wrong("alignment 2^31", aligned(1 << 31), "general.alignment"),
                wrong("alignment beyond the file", aligned(1 << 20), "the tensors take 4 bytes"),
                wrong(
                        "alignment as text",
                        RawGguf.head(0, 1).string("general.alignment").int32(8).string("32"),
                        "general.alignment"),
                wrong("empty name", tensor("", 0, 0, 1), "tensor name ''"),
                wrong(
                        "same tensor twice",
                        RawGguf.head(2, 0)
                                .tensor("a", 0, 0, 1)
                                .tensor("a", 0, 32, 1)
                                .data(64),
                        "tensor name 'a'"),
                wrong("five dimensions", tensor("a", 0, 0, 1, 1, 1, 1, 1), "5 dimensions, expected 0..4"),
                wrong(
                        "negative rank",
                        RawGguf.head(1, 0).string("a").int32(-1).int64(0).data(32),
                        "4294967295 dimensions"),
                wrong("unknown tensor type", tensor("a", 4, 0, 32), "type 4, expected one of [F32, F16"),
                wrong("negative tensor type", tensor("a", -1, 0, 32), "type 4294967295"),
                wrong("negative dimension", tensor("a", 0, 0, -1), "must not be negative"),
                wrong("dimension near 2^63", tensor("a", 0, 0, Long.MAX_VALUE), "more bytes than 2^63"),
                wrong("product that wraps to 0", tensor("a", 0, 0, 1L << 32, 1L << 32), "more elements than 2^63"),
                wrong(
                        "product that wraps to 1",
                        tensor("a", 0, 0, 0x5555555555555555L, 3, 0x5555555555555555L, 3),
                        "more elements than 2^63"),
                wrong("bytes that wrap", tensor("a", 0, 0, 1L << 61, 2), "more bytes than 2^63"),
                wrong("blocks past the file", tensor("a", 12, 0, 256L << 50), "the file has"),
                wrong(
                        "padded size that wraps",
                        RawGguf.head(2, 0)
                                .tensor("a", 1, 0, Long.MAX_VALUE / 2)
                                .tensor("b", 0, 0, 1)
                                .data(64),
                        "tensor a ends at byte 9223372036854775806"),
                wrong("row of half a block", tensor("a", 8, 0, 33), "multiple of 32"),
                wrong("rows of half a block", tensor("a", 8, 0, 16, 2), "multiple of 32"),
                wrong("scalar in blocks", tensor("a", 8, 0), "multiple of 32"),
                wrong("misaligned", tensor("a", 0, 4, 1), "begins at byte 4 of the data, expected 0"),
                wrong(
                        "overlap",
                        RawGguf.head(2, 0)
                                .tensor("a", 0, 0, 8)
                                .tensor("b", 0, 0, 8)
                                .data(64),
                        "expected 32"),
                wrong(
                        "hole",
                        RawGguf.head(2, 0)
                                .tensor("a", 0, 0, 8)
                                .tensor("b", 0, 64, 8)
                                .data(96),
                        "expected 32"),
                wrong("offset past the end", tensor("a", 0, 1L << 40, 1), "begins at byte 1099511627776"),
                wrong("offset beyond 2^63", tensor("a", 0, -32, 1), "begins at byte 18446744073709551584"),
                wrong("data too short", RawGguf.head(1, 0).tensor("a", 0, 0, 8).data(31), "the tensors take 32 bytes"),
                wrong("no data", RawGguf.head(1, 0).tensor("a", 0, 0, 1), "the tensors take 4 bytes"));
    }

    private static RawGguf pairs() {
        return RawGguf.head(0, 1);
    }

    /** A list of {@code type} that says it has {@code count} elements and has 16 bytes. */
    private static RawGguf list(int type, long count) {
        return pairs().string("a").int32(9).int32(type).int64(count).int64(0).int64(0);
    }

    private static RawGguf aligned(int alignment) {
        return RawGguf.head(1, 1)
                .pair("general.alignment", alignment)
                .tensor("x", 0, 0, 1)
                .data(64);
    }

    private static RawGguf tensor(String name, int type, long offset, long... dims) {
        return RawGguf.head(1, 0).tensor(name, type, offset, dims).data(64);
    }

    private static Arguments wrong(String what, RawGguf raw, String message) {
        return Arguments.of(what, raw, message);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("wrongHeads")
    void aWrongHeadIsRefused(String what, RawGguf raw, String message) throws IOException {
        Path path = raw.save(folder.resolve("wrong.gguf"));
        assertThatThrownBy(() -> GgufFile.open(path).close())
                .as(what)
                .isInstanceOf(ModelException.class)
                .hasMessageStartingWith(path + ": offset ")
                .hasMessageContaining(message);
    }

    @Test
    void aFileCutAnywhereIsRefused() throws IOException {
        Path whole = folder.resolve("whole.gguf");
        GgufWriter.write(
                whole,
                everyKindOfValue(),
                List.of(GgufWriter.GgufEntry.of("x", BlockFormat.F32, Shape.of(8), new float[8])));
        byte[] bytes = Files.readAllBytes(whole);
        Path cut = folder.resolve("cut.gguf");
        for (int length = 0; length < bytes.length; length++) {
            Files.write(cut, Arrays.copyOf(bytes, length));
            assertThatThrownBy(() -> GgufFile.open(cut).close()).isInstanceOf(ModelException.class);
        }
    }

    @Test
    void aHeadLongerThanTheWindowIsRead() {
        Path path = folder.resolve("long.gguf");
        List<String> tokens = new ArrayList<>();
        for (int i = 0; i < 30_000; i++) {
            tokens.add("token" + i);
        }
        String template = "x".repeat(200_000);
        Map<String, GgufValue> metadata = new LinkedHashMap<>();
        metadata.put("tokens", new GgufValue.StringArray(tokens));
        metadata.put("template", GgufValue.string(template));
        metadata.put("scores", GgufValue.NumberArray.of(gaussian(50_000)));
        GgufWriter.write(path, metadata, List.of());
        try (GgufFile file = GgufFile.open(path)) {
            assertThat(file.strings("tokens")).isEqualTo(tokens);
            assertThat(file.string("template")).isEqualTo(template);
            assertThat(file.metadata().get("scores")).isEqualTo(metadata.get("scores"));
        }
    }

    /** The file is long enough for it, but a head is not read beyond 100 MB. */
    @Test
    void aTokenOfAGigabyteIsRefusedEvenWhereTheFileHasIt() throws IOException {
        Path path = RawGguf.head(0, 1).string("token").int32(8).int64(1L << 30).save(folder.resolve("sparse.gguf"));
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.WRITE)) {
            channel.write(ByteBuffer.allocate(1), 3L << 30);
        }
        assertThatThrownBy(() -> GgufFile.open(path).close())
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("value of token: expected a count of 0..1048");
    }

    /** An error message made for each of a million strings from a key of a megabyte would take a terabyte of copying. */
    @Test
    @Timeout(20)
    void aLongKeyBeforeALongListIsReadInNoTime() {
        Path path = folder.resolve("key.gguf");
        String key = "k".repeat(1 << 20);
        GgufWriter.write(path, Map.of(key, new GgufValue.StringArray(Collections.nCopies(1 << 20, ""))), List.of());
        try (GgufFile file = GgufFile.open(path)) {
            assertThat(file.strings(key)).hasSize(1 << 20);
        }
    }

    @Test
    void aFileThatShrinksWhileOpenIsAnErrorNotGarbage() throws IOException {
        Path path = tensor("x", 0, 0, 8).save(folder.resolve("a.gguf"));
        try (GgufFile file = GgufFile.open(path)) {
            Files.write(path, new byte[70]);
            assertThatThrownBy(() -> file.readFloats("x"))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining("bytes missing");
        }
    }

    @Test
    void aMissingFileIsRefused() {
        assertThatThrownBy(() -> GgufFile.open(folder.resolve("none.gguf")))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("cannot be read");
    }

    static Stream<Arguments> whatLlamaCppWouldNotLoad() {
        return Stream.of(
                Arguments.of("no name", entry("", Shape.of(1)), "expected a new one of 1..63 bytes"),
                Arguments.of("a long name", entry("x".repeat(64), Shape.of(1)), "expected a new one of 1..63 bytes"),
                Arguments.of("no dimension", entry("x", Shape.of()), "expected 1..4 dimensions"),
                Arguments.of("five dimensions", entry("x", Shape.of(1, 1, 1, 1, 1)), "expected 1..4 dimensions"),
                Arguments.of("too few values", entry("x", Shape.of(2)), "expected 2 values, got 1"),
                Arguments.of(
                        "half a block",
                        GgufWriter.GgufEntry.of("x", BlockFormat.Q8_0, Shape.of(2, 16), new float[32]),
                        "whole blocks of 32"),
                Arguments.of(
                        "a type that is not GGUF's",
                        GgufWriter.GgufEntry.of("x", BlockFormat.NF4, Shape.of(2, 64), new float[128]),
                        "GGUF has no type NF4"));
    }

    private static GgufWriter.GgufEntry entry(String name, Shape shape) {
        return GgufWriter.GgufEntry.of(name, BlockFormat.F32, shape, 1);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("whatLlamaCppWouldNotLoad")
    void filesThatLlamaCppCannotLoadAreNotWritten(String what, GgufWriter.GgufEntry entry, String message) {
        Path path = folder.resolve("no.gguf");
        assertThatThrownBy(() -> GgufWriter.write(path, Map.of(), List.of(entry)))
                .as(what)
                .isInstanceOf(ModelException.class)
                .hasMessageContaining(message);
        assertThat(path).doesNotExist();
    }

    @Test
    void theSameNameTwiceIsNotWritten() {
        assertThatThrownBy(() -> GgufWriter.write(
                        folder.resolve("no.gguf"), Map.of(), List.of(entry("x", Shape.of(1)), entry("x", Shape.of(1)))))
                .hasMessageContaining("tensor name 'x'");
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 24, 1L << 31})
    void aWrongAlignmentIsNotWritten(long alignment) {
        Map<String, GgufValue> metadata =
                Map.of("general.alignment", new GgufValue.IntValue(GgufValue.GgufValueType.UINT32, alignment));
        assertThatThrownBy(() -> GgufWriter.write(folder.resolve("no.gguf"), metadata, List.of()))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("power of two");
    }

    /** A failure half way leaves the good file that had the name. */
    @Test
    void aFailedWriteLeavesTheExistingFile() {
        Path path = folder.resolve("a.gguf");
        GgufWriter.write(path, Map.of(), List.of(entry("x", Shape.of(1))));
        GgufWriter.GgufEntry failing = new GgufWriter.GgufEntry("x", BlockFormat.F32, Shape.of(1), out -> {
            throw new IOException("disk full");
        });
        assertThatThrownBy(() -> GgufWriter.write(path, Map.of(), List.of(failing)))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("disk full");
        try (GgufFile file = GgufFile.open(path)) {
            assertThat(file.readFloats("x")).containsExactly(1);
        }
    }

    private static float[] gaussian(int size) {
        float[] values = new float[size];
        for (int i = 0; i < size; i++) {
            values[i] = Philox.normal(5, 6, i);
        }
        return values;
    }
}
