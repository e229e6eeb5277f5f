package dev.starforge.model.convert;

import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufValue;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a GGUF file is to hold, before any of it is written.
 *
 * @param notes what a reader of the file should know
 */
record GgufContents(Map<String, GgufValue> metadata, List<GgufTensor> tensors, List<String> notes) {
    /** Of a file that is there. */
    static GgufContents of(GgufFile file) {
        return new GgufContents(
                file.metadata(),
                file.tensors().values().stream()
                        .map(stored -> GgufTensor.of(file, stored))
                        .toList(),
                List.of());
    }

    /** With another value for a key. */
    GgufContents with(String key, GgufValue value) {
        Map<String, GgufValue> changed = new LinkedHashMap<>(metadata);
        changed.put(key, value);
        return new GgufContents(changed, tensors, notes);
    }
}
