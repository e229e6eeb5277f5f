package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Shape;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.Consumer;

/** Tensors by their HF names, read as stored or as floats, independent of the file format. */
public interface WeightSource {
    /** Returns the path that error messages name. */
    Path path();

    /** Returns the shape of a tensor. Throws if there is no tensor of this name. */
    Shape shape(String name);

    /**
     * Returns the stored type of a tensor. Empty if the file stores its rows in another order or in a type without a
     * {@link DType}; then the tensor can only be {@link #read read} as floats.
     */
    Optional<DType> storedType(String name);

    /**
     * Fills {@code into} with whole rows as they are stored, from row {@code first} on. Requires a {@link #storedType}
     * whose rows are independent. Thread-safe.
     */
    void readRows(String name, long first, ByteBuffer into);

    /**
     * Passes all bytes of a tensor of a planar type to {@code piece}, plane after plane, in chunks. The buffer is valid
     * only during the call.
     */
    default void readPlanes(String name, Consumer<ByteBuffer> piece) {
        throw new ModelException(path(), "tensor " + name + " is not stored in planes");
    }

    /** Returns the file region that stores a tensor's rows in order; empty if there is no such region. */
    Optional<FileRegion> region(String name);

    /** Returns true if the tensor has this shape. Throws if there is no tensor of this name. */
    default boolean has(String name, Shape wanted) {
        return shape(name).equals(wanted);
    }

    /** Returns true if the values of a tensor differ from those of its file. */
    default boolean changesValues(String name) {
        return false;
    }

    /**
     * Reads elements {@code first} to {@code first + count - 1} of a tensor as floats. Both must be multiples of the
     * row length.
     */
    void read(String name, long first, float[] out, int count);

    static WeightSource of(Safetensors file) {
        return new WeightSource() {
            @Override
            public Path path() {
                return file.path();
            }

            @Override
            public Shape shape(String name) {
                return file.tensor(name).shape();
            }

            @Override
            public Optional<DType> storedType(String name) {
                return switch (SafetensorsType.valueOf(file.tensor(name).dtype())) {
                    case F32 -> Optional.of(DType.F32);
                    case F16 -> Optional.of(DType.F16);
                    case BF16 -> Optional.of(DType.BF16);
                    default -> Optional.empty();
                };
            }

            @Override
            public void readRows(String name, long first, ByteBuffer into) {
                SafetensorsFile.SafetensorsTensor stored = file.tensor(name);
                long row = SafetensorsType.valueOf(stored.dtype()).bytes()
                        * stored.shape().last();
                file.read(stored, first * row, into);
            }

            @Override
            public Optional<FileRegion> region(String name) {
                return Optional.of(file.region(file.tensor(name)));
            }

            @Override
            public void read(String name, long first, float[] out, int count) {
                file.readFloats(file.tensor(name), first, out, 0, count);
            }
        };
    }
}
