package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import dev.starforge.tensor.FileRegion;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Named tensors in the safetensors format, in one file or in several shards. */
public sealed interface Safetensors extends AutoCloseable permits SafetensorsFile, SafetensorsFolder {
    /** Opens a file, or a folder with {@code model.safetensors} or its shards. */
    static Safetensors open(Path path) {
        return Files.isDirectory(path) ? SafetensorsFolder.open(path) : SafetensorsFile.open(path);
    }

    /** Returns the path that error messages name. */
    Path path();

    Map<String, SafetensorsFile.SafetensorsTensor> tensors();

    /** Fills {@code into} with a tensor's bytes from {@code offset} on. */
    void read(SafetensorsFile.SafetensorsTensor tensor, long offset, ByteBuffer into);

    /** Returns the region of the file that stores a tensor. */
    FileRegion region(SafetensorsFile.SafetensorsTensor tensor);

    @Override
    void close();

    default boolean has(String name) {
        return tensors().containsKey(name);
    }

    default SafetensorsFile.SafetensorsTensor tensor(String name) {
        SafetensorsFile.SafetensorsTensor stored = tensors().get(name);
        if (stored == null) {
            throw new ModelException(path(), "has no tensor " + name);
        }
        return stored;
    }

    /** Reads a small tensor of 32-bit integers. */
    default int[] ints(String name) {
        int[] values = new int[count(name)];
        bytes(name, "I32").asIntBuffer().get(values);
        return values;
    }

    /** Reads a small tensor of 32-bit floats. */
    default float[] floats(String name) {
        float[] values = new float[count(name)];
        bytes(name, "F32").asFloatBuffer().get(values);
        return values;
    }

    /** Reads the raw bytes of a small tensor. Throws if its type is not {@code dtype}. */
    default ByteBuffer bytes(String name, String dtype) {
        SafetensorsFile.SafetensorsTensor stored = tensor(name);
        if (!stored.dtype().equals(dtype)) {
            throw new ModelException(path(), "tensor " + name + ": expected " + dtype + ", got " + stored.dtype());
        }
        count(name);
        ByteBuffer buffer = ByteBuffer.allocate(Math.toIntExact(stored.bytes())).order(ByteOrder.LITTLE_ENDIAN);
        read(stored, 0, buffer);
        return buffer.flip();
    }

    /** Reads a tensor of any type as floats, rounded to nearest; true is 1. */
    default float[] readFloats(String name) {
        float[] values = new float[count(name)];
        readFloats(tensor(name), 0, values, 0, values.length);
        return values;
    }

    /** Reads elements {@code first} to {@code first + count - 1} of a tensor of any type as floats. */
    default void readFloats(SafetensorsFile.SafetensorsTensor tensor, long first, float[] out, int at, int count) {
        SafetensorsType type = SafetensorsType.valueOf(tensor.dtype());
        int piece = Math.min(count, (1 << 20) / type.bytes());
        ByteBuffer bytes = ByteBuffer.allocate(piece * type.bytes()).order(ByteOrder.LITTLE_ENDIAN);
        for (int done = 0; done < count; done += piece) {
            int now = Math.min(piece, count - done);
            read(tensor, (first + done) * type.bytes(), bytes.clear().limit(now * type.bytes()));
            type.widen(bytes.flip(), out, at + done, now);
        }
    }

    private int count(String name) {
        SafetensorsFile.SafetensorsTensor stored = tensor(name);
        if (stored.bytes() > Integer.MAX_VALUE - 8) {
            throw new ModelException(
                    path(), "tensor " + name + ": " + stored.bytes() + " bytes do not fit into one array");
        }
        return (int) stored.shape().size();
    }
}
