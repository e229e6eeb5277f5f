package dev.starforge.train.text;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufValue;
import dev.starforge.text.tokenizer.GgufVocabulary;
import dev.starforge.text.tokenizer.GgufVocabularyConverter;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Loads the tokenizer of a model: {@code tokenizer.json} in its folder, or the vocabulary of its GGUF file. Converts
 * between the two.
 */
public final class Tokenizers {
    private static final String PREFIX = "tokenizer.ggml.";
    private static final String NONE = "no_vocab";

    private Tokenizers() {}

    public static Optional<Tokenizer> find(Path model) {
        if (!Files.isDirectory(model)) {
            try (GgufFile file = GgufFile.open(model)) {
                return file.string(PREFIX + "model", NONE).equals(NONE)
                        ? Optional.empty()
                        : Optional.of(Tokenizer.of(vocabulary(file)));
            }
        }
        Path file = model.resolve("tokenizer.json");
        return Files.exists(file) ? Optional.of(Tokenizer.read(file)) : Optional.empty();
    }

    /** Returns the tokenizer; fails if there is none, with {@code what} as the operation that needs it. */
    public static Tokenizer require(Path model, String what) {
        Path file = Files.isDirectory(model) ? model.resolve("tokenizer.json") : model;
        return find(model)
                .orElseThrow(() ->
                        new ModelException(file, "not found, but " + what + " needs a tokenizer; see --prompt-ids"));
    }

    private static GgufVocabulary vocabulary(GgufFile file) {
        String model = file.string(PREFIX + "model");
        String pre = file.string(PREFIX + "pre", "default");
        return new GgufVocabulary(
                file.path(),
                model,
                pre,
                strings(file, "tokens"),
                floats(file, "scores"),
                ints(file, "token_type"),
                strings(file, "merges"),
                file.integer(PREFIX + "bos_token_id", -1),
                file.integer(PREFIX + "eos_token_id", -1),
                file.integer(PREFIX + "unknown_token_id", -1),
                file.bool(PREFIX + "add_bos_token", GgufVocabulary.addsBosByDefault(model, pre)),
                file.bool(PREFIX + "add_eos_token", false),
                file.bool(PREFIX + "add_space_prefix", GgufVocabulary.addsSpaceByDefault(model)));
    }

    /** GGUF metadata for the tokenizer of a folder. Without a tokenizer the metadata says so. */
    public static Map<String, GgufValue> metadata(Path folder) {
        Map<String, GgufValue> metadata = new LinkedHashMap<>();
        Path file = folder.resolve("tokenizer.json");
        if (!Files.exists(file)) {
            metadata.put(PREFIX + "model", GgufValue.string(NONE));
            return metadata;
        }
        JsonConfig config = JsonConfig.read(folder.resolve("config.json"));
        GgufVocabulary vocabulary = GgufVocabularyConverter.read(
                file, config.size("vocab_size"), id(config, "bos_token_id"), id(config, "eos_token_id"));
        metadata.put(PREFIX + "model", GgufValue.string(vocabulary.model()));
        metadata.put(PREFIX + "pre", GgufValue.string(vocabulary.pre()));
        metadata.put(PREFIX + "tokens", new GgufValue.StringArray(List.of(vocabulary.tokens())));
        if (vocabulary.scores().length > 0) {
            metadata.put(PREFIX + "scores", GgufValue.NumberArray.of(vocabulary.scores()));
        }
        metadata.put(PREFIX + "token_type", GgufValue.NumberArray.of(vocabulary.types()));
        if (vocabulary.merges().length > 0) {
            metadata.put(PREFIX + "merges", new GgufValue.StringArray(List.of(vocabulary.merges())));
        }
        put(metadata, "bos_token_id", vocabulary.bos());
        put(metadata, "eos_token_id", vocabulary.eos());
        put(metadata, "unknown_token_id", vocabulary.unknown());
        put(metadata, "padding_token_id", id(config, "pad_token_id"));
        metadata.put(PREFIX + "add_bos_token", GgufValue.bool(vocabulary.addBos()));
        metadata.put(PREFIX + "add_eos_token", GgufValue.bool(vocabulary.addEos()));
        metadata.put(PREFIX + "add_space_prefix", GgufValue.bool(vocabulary.addSpacePrefix()));
        ChatTemplates.source(folder)
                .ifPresent(template -> metadata.put("tokenizer.chat_template", GgufValue.string(template)));
        return metadata;
    }

    private static void put(Map<String, GgufValue> metadata, String key, int id) {
        if (id >= 0) {
            metadata.put(PREFIX + key, GgufValue.u32(id));
        }
    }

    /**
     * The first id of a setting with several: a GGUF file stores one, and llama.cpp finds the others by their names.
     */
    private static int id(JsonConfig config, String key) {
        return config.integers(key).stream().findFirst().orElse(-1);
    }

    /**
     * Writes the tokenizer and chat template of a GGUF file into a folder. Returns false if tokenizer.json cannot
     * represent the tokenizer.
     */
    public static boolean writeJson(Path gguf, Path folder) {
        try (GgufFile file = GgufFile.open(gguf)) {
            if (file.string(PREFIX + "model", NONE).equals(NONE)) {
                return false;
            }
            if (file.hasKey(PREFIX + "chat_template")) {
                Files.writeString(folder.resolve("chat_template.jinja"), file.string(PREFIX + "chat_template"));
            }
            Optional<String> json = GgufVocabularyConverter.tokenizerJson(vocabulary(file));
            if (json.isPresent()) {
                Files.writeString(folder.resolve("tokenizer.json"), json.get());
            }
            return json.isPresent();
        } catch (IOException failure) {
            throw new ModelException(folder, "tokenizer.json cannot be written: " + failure, failure);
        }
    }

    private static String[] strings(GgufFile file, String key) {
        return file.hasKey(PREFIX + key) ? file.strings(PREFIX + key).toArray(String[]::new) : new String[0];
    }

    private static float[] floats(GgufFile file, String key) {
        if (!file.hasKey(PREFIX + key)) {
            return new float[0];
        }
        GgufValue.NumberArray numbers = file.numbers(PREFIX + key);
        float[] values = new float[numbers.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) numbers.number(i);
        }
        return values;
    }

    private static int[] ints(GgufFile file, String key) {
        if (!file.hasKey(PREFIX + key)) {
            return new int[0];
        }
        GgufValue.NumberArray numbers = file.numbers(PREFIX + key);
        int[] values = new int[numbers.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (int) numbers.integer(i);
        }
        return values;
    }
}
