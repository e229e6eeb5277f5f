package dev.starforge.text.config;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.snakeyaml.engine.v2.common.ScalarStyle;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;

/**
 * The values of a schema's keys: from a YAML 1.2 file and assignments, with defaults for the rest. The file is parsed
 * to nodes, so every error has a line number: an unknown key with the closest known one, or a value of the wrong type
 * or out of range with the expected one. Immutable; methods that change settings return a copy.
 */
public final class Settings {
    private static final int MAX_FILE_BYTES = 1 << 20;

    private final Schema schema;
    private final Map<String, Object> values;
    private final Map<String, String> places;

    private Settings(Schema schema, Map<String, Object> values, Map<String, String> places) {
        this.schema = schema;
        this.values = values;
        this.places = places;
    }

    /** Returns the default settings. */
    public static Settings of(Schema schema) {
        return new Settings(schema, new LinkedHashMap<>(), new LinkedHashMap<>());
    }

    private Settings copy() {
        return new Settings(schema, new LinkedHashMap<>(values), new LinkedHashMap<>(places));
    }

    /** Adds the settings of a file; paths in it are relative to the working directory. */
    public Settings read(Path file) {
        Settings changed = copy();
        try (InputStream in = Files.newInputStream(file)) {
            byte[] bytes = in.readNBytes(MAX_FILE_BYTES + 1);
            if (bytes.length > MAX_FILE_BYTES) {
                throw new ConfigException(file + ": expected settings, at most " + MAX_FILE_BYTES + " bytes, got more");
            }
            String text = StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(bytes))
                    .toString();
            Yaml.compose(file.toString(), text)
                    .ifPresent(node -> changed.section(file.toString(), "", node, new HashMap<>()));
        } catch (CharacterCodingException failure) {
            throw new ConfigException(file + ": is not YAML: expected UTF-8", failure);
        } catch (IOException failure) {
            throw new ConfigException(file + ": cannot be read: " + failure, failure);
        } catch (MarkedYamlEngineException failure) {
            String line = failure.getProblemMark()
                    .map(mark -> ":" + (mark.getLine() + 1))
                    .orElse("");
            throw new ConfigException(file + line + ": is not YAML: " + failure.getProblem(), failure);
        } catch (YamlEngineException failure) {
            throw new ConfigException(file + ": is not YAML: " + failure.getMessage(), failure);
        }
        return changed;
    }

    /** Adds settings in the form {@code section.key=value}, with the value in YAML. */
    public Settings set(List<String> assignments) {
        Settings changed = copy();
        for (String assignment : assignments) {
            int equals = assignment.indexOf('=');
            if (equals < 1) {
                throw new ConfigException("--set " + assignment + ": expected section.key=value");
            }
            String place = "--set " + assignment;
            String path = assignment.substring(0, equals);
            String text = assignment.substring(equals + 1);
            if (divided(path, text)) {
                List<String> items = Arrays.stream(text.split(","))
                        .filter(item -> !item.isEmpty())
                        .toList();
                changed.put(place, path, items);
                continue;
            }
            try {
                Object value = Yaml.compose(place, text)
                        .map(node -> unquoted(node) ? plain(path, text.strip()) : value(path, node))
                        .orElse("");
                changed.put(place, path, value);
            } catch (YamlEngineException failure) {
                throw new ConfigException(place + ": is not YAML: " + failure.getMessage(), failure);
            }
        }
        return changed;
    }

    /** Path patterns may begin with characters that are special in YAML. */
    private boolean divided(String path, String text) {
        return schema.key(path)
                .filter(key -> key.form() == Key.Form.PATTERNS && !(text.startsWith("[") && text.endsWith("]")))
                .isPresent();
    }

    /**
     * Reads the settings of a section.
     *
     * @param named keys of the file so far, with the names used for them, since a key may have two names
     */
    private void section(String file, String prefix, Node node, Map<String, String> named) {
        if (!(node instanceof MappingNode mapping)) {
            throw new ConfigException(
                    at(file, node) + ": expected " + (prefix.isEmpty() ? "sections" : "keys of " + prefix));
        }
        Set<String> seen = new HashSet<>();
        for (NodeTuple tuple : mapping.getValue()) {
            String name = String.valueOf(value("", tuple.getKeyNode()));
            String path = prefix.isEmpty() ? name : prefix + "." + name;
            Node value = tuple.getValueNode();
            if (!seen.add(name)) {
                throw new ConfigException(at(file, tuple.getKeyNode()) + ": key " + path + ": is there twice");
            }
            schema.key(path).map(key -> named.put(key.path(), path)).ifPresent(other -> {
                throw new ConfigException(
                        at(file, tuple.getKeyNode()) + ": key " + path + ": is there twice, before as " + other);
            });
            if (!schema.knows(path) && value instanceof MappingNode) {
                section(file, path, value, named);
            } else if (!schema.hasSection(path) || !value(path, value).equals("")) {
                put(at(file, tuple.getKeyNode()), path, value(path, value));
            }
        }
    }

    private static String at(String file, Node node) {
        return file
                + node.getStartMark().map(mark -> ":" + (mark.getLine() + 1)).orElse("");
    }

    /**
     * Returns true for a plain scalar that lost a line break or a comment after {@code #}, which may be part of a path.
     */
    private static boolean unquoted(Node node) {
        return node instanceof ScalarNode scalar && scalar.getScalarStyle() == ScalarStyle.PLAIN;
    }

    /** Converts a node to Boolean, Long, Double, String, List or Map; null becomes the empty string. */
    private Object value(String path, Node node) {
        return switch (node) {
            case ScalarNode scalar when !unquoted(scalar) -> scalar.getValue();
            case ScalarNode scalar -> plain(path, scalar.getValue());
            case SequenceNode sequence ->
                sequence.getValue().stream().map(item -> value(path, item)).toList();
            case MappingNode mapping -> {
                Map<String, Object> map = new LinkedHashMap<>();
                for (NodeTuple tuple : mapping.getValue()) {
                    map.put(String.valueOf(value("", tuple.getKeyNode())), value("", tuple.getValueNode()));
                }
                yield map;
            }
            default -> node.toString();
        };
    }

    private Object plain(String path, String text) {
        Object value = plain(text);
        boolean isText = schema.key(path)
                .filter(key -> key.form() == Key.Form.TEXT || key.form() == Key.Form.PATTERNS)
                .isPresent();
        return isText && value instanceof Number ? text : value;
    }

    private static Object plain(String text) {
        return switch (text) {
            case "", "~", "null", "Null", "NULL" -> "";
            case "true", "True", "TRUE" -> true;
            case "false", "False", "FALSE" -> false;
            default -> {
                if (text.matches("[-+]?[0-9]{1,18}")) {
                    yield Long.parseLong(text);
                }
                if (text.matches("[-+]?(\\.[0-9]+|[0-9]+(\\.[0-9]*)?)([eE][-+]?[0-9]+)?")) {
                    yield Double.parseDouble(text);
                }
                yield text;
            }
        };
    }

    private void put(String place, String path, Object value) {
        var key = schema.key(path);
        if (key.isPresent()) {
            accept(place, path, key.get(), value);
            return;
        }
        var alias = schema.alias(path);
        if (alias.isPresent()) {
            Schema.Named named = alias.get();
            accept(place, path, named.key(), named.words().getOrDefault(String.valueOf(value), value));
            return;
        }
        ForeignKeyRule answer = schema.foreign(path)
                .orElseThrow(() -> new ConfigException(place + ": unknown key " + path
                        + schema.nearest(path)
                                .map(near -> "; the nearest one is " + near)
                                .orElse("; train --print-config lists all keys")));
        switch (answer) {
            case ForeignKeyRule.AllowedValues(List<String> allowed, String reason) -> {
                if (!allowed.contains(String.valueOf(value))) {
                    throw new ConfigException(place + ": key " + path + ": " + value + " is refused: " + reason);
                }
            }
            case ForeignKeyRule.Unsupported(String reason) ->
                throw new ConfigException(place + ": key " + path + ": is refused: " + reason);
            case ForeignKeyRule.AddedTo(Key<Integer> to, String _) -> {
                if (!(value instanceof Long more && more >= 0 && more <= 1 << 20)) {
                    throw new ConfigException(
                            place + ": key " + path + ": expected whole number 0.." + (1 << 20) + ", got " + value);
                }
                accept(place, path, to, get(to) + more);
            }
        }
    }

    private void accept(String place, String path, Key<?> key, Object value) {
        if (key.form() == Key.Form.FITTED && value.equals("auto")) {
            values.remove(key.path());
            places.remove(key.path());
            return;
        }
        try {
            Object accepted = value.equals("") && !(key.missing() instanceof String)
                    ? key.missing()
                    : key.accept().apply(value);
            values.put(key.path(), accepted);
            places.put(key.path(), place);
        } catch (Key.Refusal refusal) {
            throw new ConfigException(
                    place + ": key " + path + ": expected " + key.kind() + ", got "
                            + (value.equals("") ? "nothing" : value),
                    refusal);
        }
    }

    @SuppressWarnings("unchecked") // only values that the key accepted are put under its path
    public <T> T get(Key<T> key) {
        return (T) values.getOrDefault(key.path(), key.missing());
    }

    /** Returns the value at a path as text, for tables and tests. */
    public String show(String path) {
        return Key.shown(get(schema.key(path).orElseThrow(() -> new ConfigException("unknown key " + path))));
    }

    /** Returns true if the key was set. */
    public boolean isSet(Key<?> key) {
        return values.containsKey(key.path());
    }

    /** Sets one value. */
    public <T> Settings with(Key<T> key, T value) {
        Settings changed = copy();
        changed.values.put(key.path(), Objects.requireNonNull(value));
        return changed;
    }

    /** Creates an error about the value of a key, with the location of the value. */
    public ConfigException wrong(Key<?> key, String message) {
        String value = Key.shown(get(key));
        return new ConfigException(places.getOrDefault(key.path(), "default") + ": key " + key.path() + ": "
                + (value.isEmpty() ? "" : value + ": ") + message);
    }

    /** Returns all settings as YAML. Reading it gives the same settings. */
    public String yaml() {
        StringBuilder yaml = new StringBuilder();
        List<String> open = List.of();
        for (Key<?> key : schema.keys()) {
            List<String> path = List.of(key.path().split("\\."));
            List<String> sections = path.subList(0, path.size() - 1);
            for (int depth = 0; depth < sections.size(); depth++) {
                if (!sections.subList(0, depth + 1).equals(open.subList(0, Math.min(depth + 1, open.size())))) {
                    yaml.repeat("  ", depth).append(sections.get(depth)).append(":\n");
                }
            }
            open = sections;
            yaml.repeat("  ", sections.size()).append(path.getLast() + ": " + yaml(key) + "\n");
        }
        return yaml.toString();
    }

    /** Returns the value of a key as YAML. */
    public String yaml(Key<?> key) {
        return switch (key.form()) {
            case WORD -> Key.shown(get(key));
            case FITTED -> isSet(key) ? text(get(key)) : "auto";
            case VALUE, TEXT, PATTERNS -> text(get(key));
        };
    }

    private static String text(Object value) {
        return switch (value) {
            case String text -> Yaml.quoted(text);
            case List<?> list -> {
                List<String> items = new ArrayList<>();
                list.forEach(item -> items.add(text(item)));
                yield "[" + String.join(", ", items) + "]";
            }
            case Map<?, ?> map -> {
                List<String> items = new ArrayList<>();
                map.forEach((name, item) -> items.add(text(String.valueOf(name)) + ": " + text(item)));
                yield "{" + String.join(", ", items) + "}";
            }
            default -> String.valueOf(value);
        };
    }
}
