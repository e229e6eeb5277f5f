package dev.starforge.cli;

import dev.starforge.data.GgufVocabulary;
import dev.starforge.data.Tokenizer;
import dev.starforge.model.GgufFile;
import dev.starforge.model.GgufValue;
import dev.starforge.model.ModelException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** The tokenizer that comes with a model: {@code tokenizer.json} in its folder, or the vocabulary of its GGUF file. */
final class Tokenizers {
    private static final String PREFIX = "tokenizer.ggml.";

    private Tokenizers() {}

    static Optional<Tokenizer> find(Path model) {
        if (!Files.isDirectory(model)) {
            try (GgufFile file = GgufFile.open(model)) {
                return file.hasKey(PREFIX + "model") ? Optional.of(Tokenizer.of(vocabulary(file))) : Optional.empty();
            }
        }
        Path file = model.resolve("tokenizer.json");
        return Files.exists(file) ? Optional.of(Tokenizer.read(file)) : Optional.empty();
    }

    /** The tokenizer, which {@code what} cannot do without. */
    static Tokenizer require(Path model, String what) {
        Path file = Files.isDirectory(model) ? model.resolve("tokenizer.json") : model;
        return find(model)
                .orElseThrow(() -> new ModelException(
                        file, "there is no tokenizer here, and " + what + " needs it; see --prompt-ids"));
    }

    private static GgufVocabulary vocabulary(GgufFile file) {
        String model = file.text(PREFIX + "model");
        String pre = file.text(PREFIX + "pre", "default");
        return new GgufVocabulary(
                file.path(),
                model,
                pre,
                texts(file, "tokens"),
                floats(file, "scores"),
                ints(file, "token_type"),
                texts(file, "merges"),
                file.integer(PREFIX + "bos_token_id", -1),
                file.integer(PREFIX + "eos_token_id", -1),
                file.integer(PREFIX + "unknown_token_id", -1),
                file.flag(PREFIX + "add_bos_token", GgufVocabulary.addsBosByDefault(model, pre)),
                file.flag(PREFIX + "add_eos_token", false),
                file.flag(PREFIX + "add_space_prefix", GgufVocabulary.addsSpaceByDefault(model)));
    }

    private static String[] texts(GgufFile file, String key) {
        return file.hasKey(PREFIX + key) ? file.texts(PREFIX + key).toArray(String[]::new) : new String[0];
    }

    private static float[] floats(GgufFile file, String key) {
        if (!file.hasKey(PREFIX + key)) {
            return new float[0];
        }
        GgufValue.Numbers numbers = file.numbers(PREFIX + key);
        float[] values = new float[numbers.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) numbers.real(i);
        }
        return values;
    }

    private static int[] ints(GgufFile file, String key) {
        if (!file.hasKey(PREFIX + key)) {
            return new int[0];
        }
        GgufValue.Numbers numbers = file.numbers(PREFIX + key);
        int[] values = new int[numbers.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (int) numbers.whole(i);
        }
        return values;
    }
}
