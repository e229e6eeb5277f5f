package dev.starforge.model.convert;

import dev.starforge.model.file.SafetensorsWriter.Values;
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
record GgufTensor(GgufWriter.Entry asStored, Values values) {
    static GgufTensor of(String name, BlockFormat format, Shape shape, Values values) {
        return new GgufTensor(GgufWriter.Entry.of(name, format, shape, values), values);
    }

    static GgufTensor of(GgufFile file, GgufFile.Stored stored) {
        return new GgufTensor(
                GgufWriter.Entry.copy(file, stored),
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
