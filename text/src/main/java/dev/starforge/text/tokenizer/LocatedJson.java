package dev.starforge.text.tokenizer;

import dev.starforge.text.TokenizerException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** A JSON value with its location, so that every error names the file and the path. */
public record LocatedJson(Path file, String place, JsonNode node) {
    private static final long MAX_FILE_BYTES = 256L << 20;
    private static final JsonMapper MAPPER = JsonMapper.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .build();

    static LocatedJson read(Path file) {
        try {
            long size = Files.size(file);
            if (size > MAX_FILE_BYTES) {
                throw new TokenizerException(file, "has " + size + " bytes, expected at most " + MAX_FILE_BYTES);
            }
            return parse(file, Files.readString(file, StandardCharsets.UTF_8));
        } catch (IOException failure) {
            throw new TokenizerException(file, "cannot be read: " + failure, failure);
        }
    }

    public static LocatedJson parse(Path file, String text) {
        try {
            return new LocatedJson(file, "$", MAPPER.readTree(text));
        } catch (JacksonException failure) {
            throw new TokenizerException(file, "is not JSON: " + failure.getOriginalMessage(), failure);
        }
    }

    /** Returns true if the key exists and is not null. */
    boolean has(String key) {
        return !node.path(key).isMissingNode() && !node.path(key).isNull();
    }

    LocatedJson at(String key) {
        LocatedJson value = new LocatedJson(file, place + "." + key, node.path(key));
        if (!has(key)) {
            throw value.wrong("a value");
        }
        return value;
    }

    LocatedJson object(String key) {
        LocatedJson value = at(key);
        if (!value.node.isObject()) {
            throw value.wrong("an object");
        }
        return value;
    }

    /** Returns the items of a list. */
    List<LocatedJson> list(String key) {
        return at(key).list();
    }

    List<LocatedJson> list() {
        if (!node.isArray()) {
            throw wrong("a list");
        }
        List<LocatedJson> items = new ArrayList<>(node.size());
        for (JsonNode item : node) {
            items.add(new LocatedJson(file, place + "[" + items.size() + "]", item));
        }
        return items;
    }

    /** Returns the keys of an object in file order. */
    List<String> keys() {
        List<String> keys = new ArrayList<>(node.size());
        for (Map.Entry<String, JsonNode> property : node.properties()) {
            keys.add(property.getKey());
        }
        return keys;
    }

    String text(String key) {
        return at(key).text();
    }

    String text(String key, String missing) {
        return has(key) ? text(key) : missing;
    }

    /** Returns a string without unpaired surrogates. */
    String text() {
        if (!node.isString()) {
            throw wrong("a string");
        }
        String text = node.stringValue();
        if (!Tokenizer.wellFormed(text).equals(text)) {
            throw wrong("a string without half a surrogate pair");
        }
        return text;
    }

    int integer(String key) {
        return at(key).integer();
    }

    int integer() {
        if (!node.isIntegralNumber() || !node.canConvertToInt() || node.intValue() < 0) {
            throw wrong("a whole number below 2^31");
        }
        return node.intValue();
    }

    boolean flag(String key) {
        LocatedJson value = at(key);
        if (!value.node.isBoolean()) {
            throw value.wrong("true or false");
        }
        return value.node.booleanValue();
    }

    boolean flag(String key, boolean missing) {
        return has(key) ? flag(key) : missing;
    }

    TokenizerException wrong(String expected) {
        String actual = node.isMissingNode() ? "nothing" : node.toString();
        return error("expected " + expected + ", got "
                + (actual.length() > 200 ? actual.substring(0, 200) + "..." : actual));
    }

    TokenizerException error(String message) {
        return new TokenizerException(file, place + ": " + message);
    }
}
