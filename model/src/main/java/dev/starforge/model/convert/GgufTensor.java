package dev.starforge.model.convert;

import dev.starforge.model.file.SafetensorsWriter.FloatReader;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufWriter;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;

/**
 * A tensor on its way into a GGUF file.
 *
 * @param asStored how it is written where nothing is to change
 * @param values its numbers, in whole rows
 */
record GgufTensor(GgufWriter.GgufEntry asStored, FloatReader values) {
    static GgufTensor of(String name, BlockFormat format, Shape shape, FloatReader values) {
        return new GgufTensor(GgufWriter.GgufEntry.of(name, format, shape, values), values);
    }

    static GgufTensor of(GgufFile file, GgufFile.GgufTensorInfo stored) {
        return new GgufTensor(
                GgufWriter.GgufEntry.copy(file, stored),
                (first, out, count) -> file.readFloats(stored, first, out, 0, count));
    }

    String name() {
        return asStored.name();
    }

    Shape shape() {
        return asStored.shape();
    }

    BlockFormat format() {
        return asStored.format();
    }
}
