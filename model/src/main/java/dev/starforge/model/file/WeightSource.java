package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Shape;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.Consumer;

/** Named tensors by the names HF gives them, decoded piece by piece or as they are, whatever file they lie in. */
public interface WeightSource {
    /** What errors name. */
    Path path();

    /** The shape of a tensor; throws if there is none of this name. */
    Shape shape(String name);

    /**
     * The type a tensor is stored in. Empty where its rows do not lie in the file as they are wanted, or their type is none
     * of ours: then it can only be {@link #read read} as floats.
     */
    Optional<DType> storedType(String name);

    /**
     * Fills {@code into} with whole rows as they are stored, from row {@code first} on. Only where {@link #storedType} answers
     * with a type whose rows stand alone. Several threads may read at once.
     */
    void readRows(String name, long first, ByteBuffer into);

    /**
     * All bytes of a tensor that is stored in a planar type, plane after plane, in pieces. Of a piece nothing is to be kept.
     */
    default void readPlanes(String name, Consumer<ByteBuffer> piece) {
        throw new ModelException(path(), "tensor " + name + " is not stored in planes");
    }

    /** Where a tensor's rows lie in a file, in order and as they are stored; empty where they do not. */
    Optional<FileRegion> region(String name);

    /** Whether a tensor of this name and shape is there; throws if there is none of this name. */
    default boolean has(String name, Shape wanted) {
        return shape(name).equals(wanted);
    }

    /** Whether the numbers of a tensor are others than those of its file. */
    default boolean changesValues(String name) {
        return false;
    }

    /** Elements {@code first} to {@code first + count - 1} of a tensor as floats; both are whole rows. */
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
