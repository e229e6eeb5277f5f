package dev.starforge.train.text;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.text.template.ChatTemplate;
import dev.starforge.text.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** Finds the chat template of a model: a file or a setting in its folder, or metadata of its GGUF file. */
public final class ChatTemplates {
    private static final String GGUF_KEY = "tokenizer.chat_template";

    private ChatTemplates() {}

    /**
     * The source of a chat template.
     *
     * @param file where it was found, for error messages
     */
    public record Source(Path file, String text) {
        /** Parses the template, with the special tokens of a model. */
        public ChatTemplate parse(Path model, Tokenizer tokenizer, Clock clock) {
            return ChatTemplate.parse(file, text, tokens(model, tokenizer), clock);
        }
    }

    /** Returns the source of the template, if the model has one. */
    public static Optional<String> source(Path model) {
        return find(model).map(Source::text);
    }

    /** Finds the template of a model, if it has one. */
    public static Optional<Source> find(Path model) {
        if (!Files.isDirectory(model)) {
            try (GgufFile file = GgufFile.open(model)) {
                return file.hasKey(GGUF_KEY) ? Optional.of(new Source(model, file.string(GGUF_KEY))) : Optional.empty();
            }
        }
        Path alone = model.resolve("chat_template.jinja");
        Path settings = model.resolve("tokenizer_config.json");
        try {
            if (Files.exists(alone)) {
                return Optional.of(new Source(alone, Files.readString(alone)));
            }
        } catch (IOException failure) {
            throw new ModelException(alone, "cannot be read: " + failure, failure);
        }
        return Files.exists(settings) && JsonConfig.read(settings).has("chat_template")
                ? Optional.of(new Source(settings, JsonConfig.read(settings).string("chat_template")))
                : Optional.empty();
    }

    /** Returns the chat template; fails if the model has none. */
    public static ChatTemplate require(Path model, Tokenizer tokenizer) {
        String source = source(model)
                .orElseThrow(() -> new ModelException(
                        model,
                        "has no chat template, and data with messages needs one (chat_template.jinja, "
                                + "tokenizer_config.json, or " + GGUF_KEY + " of a GGUF file)"));
        return ChatTemplate.parse(model, source, tokens(model, tokenizer));
    }

    /** Returns the special tokens that templates use, by name. */
    public static Map<String, String> tokens(Path model, Tokenizer tokenizer) {
        Map<String, String> tokens = new TreeMap<>();
        for (String name : List.of("bos", "eos", "pad", "unk")) {
            text(model, tokenizer, name).ifPresent(text -> tokens.put(name + "_token", text));
        }
        return tokens;
    }

    private static Optional<String> text(Path model, Tokenizer tokenizer, String name) {
        if (!Files.isDirectory(model)) {
            String key = "tokenizer.ggml."
                    + Map.of("pad", "padding", "unk", "unknown").getOrDefault(name, name) + "_token_id";
            try (GgufFile file = GgufFile.open(model)) {
                return file.hasKey(key) ? Optional.of(tokenizer.token(file.integer(key))) : Optional.empty();
            }
        }
        Path settings = model.resolve("tokenizer_config.json");
        if (Files.exists(settings)) {
            JsonConfig config = JsonConfig.read(settings);
            String key = name + "_token";
            if (config.has(key)) {
                // a token, or an object that describes one
                return Optional.of(config.isObject(key) ? config.section(key).string("content") : config.string(key));
            }
        }
        return JsonConfig.read(model.resolve("config.json")).integers(name + "_token_id").stream()
                .findFirst()
                .filter(tokenizer::has)
                .map(tokenizer::token);
    }
}
