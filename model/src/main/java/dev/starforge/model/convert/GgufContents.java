package dev.starforge.model.convert;

import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufValue;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The contents of a GGUF file to be written.
 *
 * @param notes notes for the user about differences of the file
 */
record GgufContents(Map<String, GgufValue> metadata, List<GgufTensor> tensors, List<String> notes) {
    /** Returns the contents of an existing file. */
    static GgufContents of(GgufFile file) {
        return new GgufContents(
                file.metadata(),
                file.tensors().values().stream()
                        .map(stored -> GgufTensor.of(file, stored))
                        .toList(),
                List.of());
    }

    /** Returns a copy with another value for a key. */
    GgufContents with(String key, GgufValue value) {
        Map<String, GgufValue> changed = new LinkedHashMap<>(metadata);
        changed.put(key, value);
        return new GgufContents(changed, tensors, notes);
    }
}
