package dev.starforge.model;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** A JSON file of settings, read with errors that name the file and the key. */
public final class JsonConfig {
    private static final long LARGEST_FILE = 16L << 20;
    private static final JsonMapper JSON = JsonMapper.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .build();

    private final Path path;
    private final String prefix;
    private final JsonNode node;

    private JsonConfig(Path path, String prefix, JsonNode node) {
        this.path = path;
        this.prefix = prefix;
        this.node = node;
    }

    @SuppressWarnings("exports") // for the packages of this module
    public static JsonConfig of(Path path, JsonNode node) {
        return new JsonConfig(path, "", node);
    }

    public static JsonConfig read(Path path) {
        try {
            if (Files.size(path) > LARGEST_FILE) {
                throw new ModelException(path, "is larger than " + LARGEST_FILE + " bytes");
            }
            JsonNode node = JSON.readTree(Files.readString(path, StandardCharsets.UTF_8));
            if (!node.isObject()) {
                throw new ModelException(path, "expected a JSON object");
            }
            return new JsonConfig(path, "", node);
        } catch (NoSuchFileException failure) {
            throw new ModelException(path, "there is no such file", failure);
        } catch (IOException failure) {
            throw new ModelException(path, "cannot be read: " + failure, failure);
        } catch (JacksonException failure) {
            throw new ModelException(path, "is not JSON: " + failure.getOriginalMessage(), failure);
        }
    }

    /** The same without a key. */
    public JsonConfig without(String key) {
        ObjectNode changed = (ObjectNode) node.deepCopy();
        changed.remove(key);
        return new JsonConfig(path, prefix, changed);
    }

    /** All of it as JSON. */
    public String json() {
        return node.toPrettyString();
    }

    public Path path() {
        return path;
    }

    /** Whether the key is there and not null. */
    public boolean has(String key) {
        return !node.path(key).isMissingNode() && !node.path(key).isNull();
    }

    /** The keys in the file's order. */
    public List<String> keys() {
        return List.copyOf(node.propertyNames());
    }

    public boolean isObject(String key) {
        return node.path(key).isObject();
    }

    public JsonConfig section(String key) {
        if (!node.path(key).isObject()) {
            throw invalid(key, "an object");
        }
        return new JsonConfig(path, prefix + key + ".", node.get(key));
    }

    public int integer(String key) {
        JsonNode value = node.path(key);
        if (!value.isIntegralNumber() || !value.canConvertToInt()) {
            throw invalid(key, "a whole number");
        }
        return value.intValue();
    }

    public int integer(String key, int defaultValue) {
        return has(key) ? integer(key) : defaultValue;
    }

    /** A whole number that must be at least 1: a size. */
    public int size(String key) {
        int value = integer(key);
        if (value < 1) {
            throw invalid(key, "a number above 0");
        }
        return value;
    }

    public int size(String key, int defaultValue) {
        return has(key) ? size(key) : defaultValue;
    }

    /** The sliding window; 0 for none, however that is spelled. */
    public int slidingWindow() {
        int window = integer("sliding_window", 0);
        if (window < 0) {
            throw invalid("sliding_window", "a number of positions");
        }
        return window;
    }

    public double number(String key) {
        JsonNode value = node.path(key);
        if (!value.isNumber() || !Double.isFinite(value.doubleValue())) {
            throw invalid(key, "a number");
        }
        return value.doubleValue();
    }

    public double number(String key, double defaultValue) {
        return has(key) ? number(key) : defaultValue;
    }

    public boolean bool(String key, boolean defaultValue) {
        if (has(key) && !node.get(key).isBoolean()) {
            throw invalid(key, "true or false");
        }
        return has(key) ? node.get(key).booleanValue() : defaultValue;
    }

    public boolean isString(String key) {
        return node.path(key).isString();
    }

    public String string(String key) {
        if (!node.path(key).isString()) {
            throw invalid(key, "a string");
        }
        return node.get(key).stringValue();
    }

    public String string(String key, String defaultValue) {
        return has(key) ? string(key) : defaultValue;
    }

    /** One whole number or a list of them; empty when the key is missing. */
    public Set<Integer> integers(String key) {
        Set<Integer> values = new TreeSet<>();
        JsonNode value = node.path(key);
        for (JsonNode item : value.isArray() ? value : has(key) ? List.of(value) : List.<JsonNode>of()) {
            if (!item.isIntegralNumber() || !item.canConvertToInt()) {
                throw invalid(key, "a whole number or a list of them");
            }
            values.add(item.intValue());
        }
        return values;
    }

    /** The numbers of a list. */
    public double[] numbers(String key) {
        JsonNode list = node.path(key);
        double[] values = new double[list.size()];
        for (int i = 0; i < values.length; i++) {
            if (!list.get(i).isNumber()) {
                throw invalid(key, "a list of numbers");
            }
            values[i] = list.get(i).doubleValue();
        }
        if (!list.isArray()) {
            throw invalid(key, "a list of numbers");
        }
        return values;
    }

    /** True for a missing or null key, false, zero, an empty string, list or object. */
    public boolean isUnset(String key) {
        JsonNode value = node.path(key);
        return !has(key)
                || value.isBoolean() && !value.booleanValue()
                || value.isNumber() && value.doubleValue() == 0
                || value.isString() && value.stringValue().isEmpty()
                || value.isContainer() && value.isEmpty();
    }

    /** An error about one key: what was expected and what is there. */
    public ModelException invalid(String key, String expected) {
        return new ModelException(
                path,
                "key " + prefix + key + ": expected " + expected + ", got " + (has(key) ? node.get(key) : "nothing"));
    }
}
