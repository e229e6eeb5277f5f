package dev.starforge.model;

import dev.starforge.tensor.Shape;
import java.nio.file.Path;

/** Named tensors by the names HF gives them, decoded piece by piece, whatever file they lie in. */
interface WeightSource {
    /** What errors name. */
    Path path();

    /** The shape of a tensor; throws if there is none of this name. */
    Shape shape(String name);

    /** Whether a tensor of this name and shape is there; throws if there is none of this name. */
    default boolean holds(String name, Shape wanted) {
        return shape(name).equals(wanted);
    }

    /** Elements {@code first} to {@code first + count - 1} of a tensor as floats. */
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
            public void read(String name, long first, float[] out, int count) {
                file.readFloats(file.tensor(name), first, out, 0, count);
            }
        };
    }
}
