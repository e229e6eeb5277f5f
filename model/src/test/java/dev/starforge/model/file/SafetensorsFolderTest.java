package dev.starforge.model.file;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.ModelException;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.Nf4;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Shards read as one, an index that lies is refused, pickles are refused, and all types become floats. */
final class SafetensorsFolderTest {
    private static final String INDEX = "model.safetensors.index.json";

    @TempDir
    Path parent;

    private Path folder;

    @BeforeEach
    void makeFolder() throws IOException {
        folder = Files.createDirectory(parent.resolve("model"));
    }

    private static List<SafetensorsFile.SafetensorsData> entries() {
        return List.of(
                SafetensorsFile.SafetensorsData.of("a", Shape.of(2), 1f, 2f),
                SafetensorsFile.SafetensorsData.of("b", Shape.of(1), 3f),
                SafetensorsFile.SafetensorsData.of("c", Shape.of(3), 4f, 5f, 6f),
                SafetensorsFile.SafetensorsData.of("d", Shape.of(1), 7));
    }

    @ParameterizedTest
    @CsvSource({"1000, 1", "12, 3", "1, 4"})
    void writtenFoldersReadBack(long shardBytes, int files) throws IOException {
        SafetensorsFolder.write(folder, entries(), shardBytes);
        try (var list = Files.list(folder)) {
            assertThat(list.filter(f -> f.toString().endsWith(".safetensors"))).hasSize(files);
        }
        assertThat(Files.exists(folder.resolve(INDEX))).isEqualTo(files > 1);
        assertThat(folder).isDirectoryNotContaining("glob:**.partial");
        try (Safetensors weights = Safetensors.open(folder)) {
            assertThat(weights.tensors().keySet()).containsExactly("a", "b", "c", "d");
            assertThat(weights.has("c")).isTrue();
            assertThat(weights.has("e")).isFalse();
            assertThat(weights.tensor("c").shape()).isEqualTo(Shape.of(3));
            assertThat(weights.floats("a")).containsExactly(1, 2);
            assertThat(weights.floats("c")).containsExactly(4, 5, 6);
            assertThat(weights.ints("d")).containsExactly(7);
            ByteBuffer piece = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN);
            weights.read(weights.tensor("c"), 8, piece);
            assertThat(piece.getFloat(0)).isEqualTo(6);
            assertThatThrownBy(() -> weights.tensor("e")).hasMessageContaining("has no tensor e");
            assertThatThrownBy(() -> weights.read(weights.tensor("a"), 8, piece.clear()))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining("asked for 4 bytes at 8 of 8");
        }
    }

    @Test
    void theIndexCountsTheBytes() {
        SafetensorsFolder.write(folder, entries(), 12);
        assertThat(folder.resolve(INDEX)).content().contains("\"total_size\" : 28", "model-00001-of-00003.safetensors");
    }

    @Test
    void existingWeightsAreNotOverwritten() {
        SafetensorsFolder.write(folder, entries(), 1000);
        assertThatThrownBy(() -> SafetensorsFolder.write(folder, entries(), 12))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("already exists");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "up | {'weight_map':{'a':'../s1.safetensors'}} | in the same folder",
                "absolute | {'weight_map':{'a':'/s1.safetensors'}} | in the same folder",
                "backslash | {'weight_map':{'a':'..\\\\s1.safetensors'}} | in the same folder",
                "drive | {'weight_map':{'a':'c:s1.safetensors'}} | in the same folder",
                "zero byte | {'weight_map':{'a':'s1\\u0000.safetensors'}} | in the same folder",
                "pickle | {'weight_map':{'a':'pytorch_model.bin'}} | expected the name of a .safetensors file",
                "number | {'weight_map':{'a':1}} | in the same folder",
                "no map | {} | expected an object weight_map",
                "empty map | {'weight_map':{}} | expected an object weight_map",
                "list | [] | expected an object weight_map",
                "not JSON | {'weight_map' | is not JSON",
                "same tensor twice | {'weight_map':{'a':'s1.safetensors','a':'s2.safetensors'}} | is not JSON",
                "missing shard | {'weight_map':{'a':'s9.safetensors'}} | s9.safetensors: cannot be read",
                "wrong shard | {'weight_map':{'a':'s2.safetensors'}} | has no tensor a",
                "in two shards | {'weight_map':{'a':'s1.safetensors','c':'s2.safetensors','b':'s1.safetensors'}} |"
                        + " tensor b: is also in s1.safetensors",
                "symlink out | {'weight_map':{'x':'link.safetensors'}} | links to a file outside its folder",
                "symlink to nothing | {'weight_map':{'x':'dangling.safetensors'}} | cannot be read",
            })
    void anInconsistentIndexIsRefused(String what, String index, String message) throws IOException {
        SafetensorsFile.write(folder.resolve("s1.safetensors"), entries().subList(0, 2));
        SafetensorsFile.write(
                folder.resolve("s2.safetensors"),
                List.of(entries().get(1), entries().get(2)));
        SafetensorsFile.write(
                parent.resolve("outside.safetensors"),
                List.of(SafetensorsFile.SafetensorsData.of("x", Shape.of(1), 1f)));
        Files.createSymbolicLink(folder.resolve("link.safetensors"), Path.of("..", "outside.safetensors"));
        Files.createSymbolicLink(folder.resolve("dangling.safetensors"), Path.of("nothing.safetensors"));
        Files.writeString(folder.resolve(INDEX), index.replace('\'', '"'));
        assertThatThrownBy(() -> Safetensors.open(folder).close())
                .as(what)
                .isInstanceOf(ModelException.class)
                .hasMessageStartingWith(parent.toString())
                .hasMessageContaining(message);
    }

    @Test
    void aLinkOutInPlaceOfTheSingleFileIsRefused() throws IOException {
        SafetensorsFile.write(parent.resolve("outside.safetensors"), entries());
        Files.createSymbolicLink(folder.resolve("model.safetensors"), parent.resolve("outside.safetensors"));
        assertThatThrownBy(() -> Safetensors.open(folder).close())
                .hasMessageContaining("links to a file outside its folder");
    }

    @Test
    void aLinkWithinTheFolderIsFollowed() throws IOException {
        SafetensorsFile.write(folder.resolve("real.safetensors"), entries());
        Files.createSymbolicLink(folder.resolve("model.safetensors"), Path.of("real.safetensors"));
        try (Safetensors weights = Safetensors.open(folder)) {
            assertThat(weights.floats("b")).containsExactly(3);
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "pytorch_model.bin",
                "pytorch_model.bin.index.json",
                "pytorch_model-00001-of-00002.bin",
                "model.pt",
                "MODEL.PTH",
                "x.ckpt",
                "x.pkl"
            })
    void picklesAreRefusedByNameWithAHint(String name) throws IOException {
        Path file = Files.write(folder.resolve(name), new byte[64]);
        for (Path given : List.of(file, folder)) {
            assertThatThrownBy(() -> Safetensors.open(given).close())
                    .isInstanceOf(ModelException.class)
                    .hasMessageStartingWith(file.toString())
                    .hasMessageContaining("pickle")
                    .hasMessageContaining("save_pretrained");
        }
        assertThatThrownBy(() -> GgufFile.open(file).close()).hasMessageContaining("pickle");
    }

    @Test
    void aFolderWithoutWeightsSaysWhatItNeeds() {
        assertThatThrownBy(() -> Safetensors.open(folder).close())
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("expected a folder with model.safetensors or model.safetensors.index.json");
    }

    @ParameterizedTest
    @CsvSource({
        "F64, 8, 400599999999999A, 2.7",
        "F32, 4, 402CCCCD, 2.7",
        "F16, 2, C100, -2.5",
        "BF16, 2, C020, -2.5",
        "F8_E4M3, 1, 7E, 448",
        "F8_E5M2, 1, FB, -57344",
        "F8_E8M0, 1, 80, 2",
        "I64, 8, FFFFFFFFFFFFFFFE, -2",
        "U64, 8, FFFFFFFFFFFFFFFF, 18446744073709551616",
        "U64, 8, 8000008000000001, 9223373136366403584",
        "I32, 4, FFFFFFFD, -3",
        "U32, 4, FFFFFFFF, 4294967296",
        "I16, 2, FFFC, -4",
        "U16, 2, FFFF, 65535",
        "I8, 1, FB, -5",
        "U8, 1, FF, 255",
        "BOOL, 1, 01, 1"
    })
    void everyTypeBecomesFloats(String dtype, int bytes, String hex, float value) {
        ByteBuffer data = ByteBuffer.allocate(3 * bytes).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < bytes; i++) {
            data.put(bytes + i, (byte) (Long.parseUnsignedLong(hex, 16) >>> 8 * i));
        }
        Path file = folder.resolve("one.safetensors");
        SafetensorsFile.write(file, List.of(new SafetensorsFile.SafetensorsData("x", dtype, Shape.of(3), data)));
        try (Safetensors weights = Safetensors.open(file)) {
            float zero = dtype.equals("F8_E8M0") ? 0x1p-127f : 0;
            assertThat(weights.readFloats("x")).containsExactly(zero, value, zero);
            float[] piece = new float[3];
            weights.readFloats(weights.tensor("x"), 1, piece, 2, 1);
            assertThat(piece).containsExactly(0, 0, value);
        }
    }

    @Test
    void aTensorLongerThanAChunkBecomesFloats() {
        ByteBuffer data = ByteBuffer.allocate(2 * 600_001).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < 600_001; i++) {
            data.putShort(2 * i, DType.F16.narrow(i % 2000));
        }
        Path file = folder.resolve("long.safetensors");
        SafetensorsFile.write(file, List.of(new SafetensorsFile.SafetensorsData("x", "F16", Shape.of(600_001), data)));
        try (Safetensors weights = Safetensors.open(file)) {
            float[] values = weights.readFloats("x");
            for (int i = 0; i < values.length; i++) {
                assertThat(values[i]).isEqualTo(i % 2000);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void nf4WeightsKeepTheNamesOfBitsAndBytes(boolean nested) {
        float[] w = new float[7 * 31];
        for (int i = 0; i < w.length; i++) {
            w[i] = (float) Math.sin(i);
        }
        Nf4 quants = nested ? Nf4.encodeDouble(w, 64) : Nf4.encode(w, 64);
        Path file = folder.resolve("nf4.safetensors");
        SafetensorsFile.write(
                file,
                BitsAndBytes.entries("p.weight", new BitsAndBytes.Nf4Weight(Shape.of(7, 31), quants), "bfloat16"));
        try (Safetensors weights = Safetensors.open(file)) {
            assertThat(BitsAndBytes.has(weights, "p.weight")).isTrue();
            assertThat(weights.tensor("p.weight").shape()).isEqualTo(Shape.of(109, 1));
            assertThat(weights.has("p.weight.nested_absmax")).isEqualTo(nested);
            BitsAndBytes.Nf4Weight back = BitsAndBytes.read(weights, "p.weight");
            assertThat(back.shape()).isEqualTo(Shape.of(7, 31));
            assertThat(back.quants().decode()).isEqualTo(quants.decode());
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "not JSON | {'a | is not JSON",
                "another table | {'quant_type':'fp4','blocksize':64,'shape':[2]} | expected the NF4 table",
                "no shape | {'quant_type':'nf4','blocksize':64} | expected a list as shape",
                "wrong size | {'quant_type':'nf4','blocksize':64,'shape':[5]} | expected 3 values, got 1",
                "huge shape | {'quant_type':'nf4','blocksize':64,'shape':[2147483647,2147483647,9]} | 2^63",
                "block 0 | {'quant_type':'nf4','blocksize':0,'shape':[2]} | a block above 0",
                "fractional block | {'quant_type':'nf4','blocksize':1.5,'shape':[2]} | expected a whole number",
            })
    void anInconsistentNf4StateIsRefused(String what, String state, String message) {
        byte[] json = state.replace('\'', '"').getBytes(StandardCharsets.UTF_8);
        Path file = folder.resolve("nf4.safetensors");
        SafetensorsFile.write(
                file,
                List.of(
                        new SafetensorsFile.SafetensorsData("w", "U8", Shape.of(1, 1), ByteBuffer.allocate(1)),
                        SafetensorsFile.SafetensorsData.of("w.absmax", Shape.of(1), 1f),
                        SafetensorsFile.SafetensorsData.of("w.quant_map", Shape.of(16), Nf4.quants16()),
                        new SafetensorsFile.SafetensorsData(
                                "w.quant_state.bitsandbytes__nf4",
                                "U8",
                                Shape.of(json.length),
                                ByteBuffer.wrap(json))));
        try (Safetensors weights = Safetensors.open(file)) {
            assertThatThrownBy(() -> BitsAndBytes.read(weights, "w"))
                    .as(what)
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining(message);
        }
    }
}
