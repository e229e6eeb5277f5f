package dev.starforge.model.file;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.ModelException;
import dev.starforge.tensor.Shape;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What is written reads back, and no header, however wrong, gets past {@code open}. */
final class SafetensorsFileTest {
    @TempDir
    Path folder;

    @Test
    void writtenFilesReadBack() {
        Path path = folder.resolve("a.safetensors");
        SafetensorsFile.write(
                path,
                List.of(
                        SafetensorsFile.SafetensorsData.of("x", Shape.of(2, 3), 1, 2, 3, 4, 5, 6.5f),
                        SafetensorsFile.SafetensorsData.of("empty", Shape.of(0, 3), new float[0]),
                        SafetensorsFile.SafetensorsData.of("ids", Shape.of(2), 7, -8)));
        try (SafetensorsFile file = SafetensorsFile.open(path)) {
            assertThat(file.tensors().keySet()).containsExactly("x", "empty", "ids");
            assertThat(file.tensor("x").shape()).isEqualTo(Shape.of(2, 3));
            assertThat(file.floats("x")).containsExactly(1, 2, 3, 4, 5, 6.5f);
            assertThat(file.ints("ids")).containsExactly(7, -8);
            assertThatThrownBy(() -> file.tensor("y"))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining("no tensor y");
            assertThatThrownBy(() -> file.floats("ids")).hasMessageContaining("expected F32, got I32");
        }
        assertThat(folder).isDirectoryNotContaining("glob:**.partial");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "not JSON | {'x' | is not JSON",
                "not an object | [1,2] | expected a JSON object",
                "no dtype | {'x':{'shape':[1],'data_offsets':[0,4]}} | expected dtype, shape and two data_offsets",
                "unknown dtype | {'x':{'dtype':'Q9','shape':[1],'data_offsets':[0,4]}} | unknown dtype Q9",
                "end before begin | {'x':{'dtype':'F32','shape':[1],'data_offsets':[4,0]}} | bytes 4..0",
                "past the end | {'x':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}} | bytes 0..8 of 4",
                "shape and bytes differ | {'x':{'dtype':'F32','shape':[3],'data_offsets':[0,4]}} | takes 12 bytes",
                "negative dimension | {'x':{'dtype':'F32','shape':[-1],'data_offsets':[0,4]}} | whole number",
                "fractional dimension | {'x':{'dtype':'F32','shape':[1.5],'data_offsets':[0,4]}} | whole number",
                "product past 2^63 | {'x':{'dtype':'U8','shape':[4294967296,4294967296],'data_offsets':[0,4]}} | 2^63",
                "bytes past 2^63 | {'x':{'dtype':'F64','shape':[2305843009213693952],'data_offsets':[0,4]}} | overflow",
                "twice the same |"
                        + " {'x':{'dtype':'U8','shape':[4],'data_offsets':[0,4]},'x':{'dtype':'U8','shape':[4],'data_offsets':[0,4]}}"
                        + " | not JSON",
                "overlap |"
                        + " {'x':{'dtype':'U8','shape':[3],'data_offsets':[0,3]},'y':{'dtype':'U8','shape':[2],'data_offsets':[2,4]}}"
                        + " | overlap",
                "hole |"
                        + " {'x':{'dtype':'U8','shape':[1],'data_offsets':[0,1]},'y':{'dtype':'U8','shape':[2],'data_offsets':[2,4]}}"
                        + " | hole",
                "data left over | {'x':{'dtype':'U8','shape':[3],'data_offsets':[0,3]}} | end at 3, the data has 4",
            })
    void aWrongHeaderIsRefused(String what, String header, String message) throws IOException {
        Path path = raw(header.replace('\'', '"'), header.length(), 4);
        assertThatThrownBy(() -> SafetensorsFile.open(path))
                .as(what)
                .isInstanceOf(ModelException.class)
                .hasMessageStartingWith(path.toString())
                .hasMessageContaining(message);
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 1, -1, Long.MIN_VALUE, Long.MAX_VALUE, 100L << 20, 60})
    void aWrongHeaderLengthIsRefused(long length) throws IOException {
        Path path = raw("{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", length, 0);
        assertThatThrownBy(() -> SafetensorsFile.open(path))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("header length");
    }

    @Test
    void aShortOrMissingFileIsRefused() throws IOException {
        Path path = folder.resolve("short.safetensors");
        Files.write(path, new byte[7]);
        assertThatThrownBy(() -> SafetensorsFile.open(path)).hasMessageContaining("the file has 7");
        assertThatThrownBy(() -> SafetensorsFile.open(folder.resolve("none"))).hasMessageContaining("cannot be read");
    }

    @Test
    void aFileThatShrinksWhileOpenIsAnErrorNotGarbage() throws IOException {
        Path path = folder.resolve("a.safetensors");
        SafetensorsFile.write(path, List.of(SafetensorsFile.SafetensorsData.of("x", Shape.of(4), 1, 2, 3, 4)));
        try (SafetensorsFile file = SafetensorsFile.open(path)) {
            Files.write(path, new byte[20]);
            assertThatThrownBy(() -> file.ints("x"))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining("bytes missing");
        }
    }

    private Path raw(String header, long length, int dataBytes) throws IOException {
        byte[] json = header.getBytes(StandardCharsets.UTF_8);
        ByteBuffer bytes = ByteBuffer.allocate(8 + json.length + dataBytes).order(ByteOrder.LITTLE_ENDIAN);
        bytes.putLong(length).put(json);
        Path path = folder.resolve("raw.safetensors");
        Files.write(path, bytes.array());
        return path;
    }
}
