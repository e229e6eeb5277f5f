package dev.starforge.data.chat;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * What a template computes with: strings, whole numbers as {@code Long}, {@code Double}, {@code Boolean}, lists, maps, a {@link
 * Namespace}, and the two words below. Rules are Python's where templates rely on them.
 */
final class Value {
    /** Python's None, and Jinja's value of a name that nobody gave. */
    enum Word {
        NONE,
        UNDEFINED
    }

    /** The one thing that a template can change from within a loop. */
    record Namespace(Map<String, Object> fields) {}

    /** Texts and lists longer than this are a loop gone wild. */
    private static final int LONGEST = 16 << 20;

    private static final JsonMapper JSON = new JsonMapper();

    private Value() {}

    /** Refuses what would grow beyond all measure, before it does. */
    static void requireRoom(long length) {
        if (length > LONGEST) {
            throw new Failure("writes more than " + LONGEST + " characters");
        }
    }

    static boolean isTrue(Object value) {
        return switch (value) {
            case Boolean flag -> flag;
            case String text -> !text.isEmpty();
            case Long number -> number != 0;
            case Double number -> number != 0;
            case List<?> list -> !list.isEmpty();
            case Map<?, ?> map -> !map.isEmpty();
            case Word _ -> false;
            default -> true;
        };
    }

    static boolean same(Object a, Object b) {
        if (a instanceof Number one && b instanceof Number other) {
            return one.doubleValue() == other.doubleValue();
        }
        return a.equals(b);
    }

    /** As an output writes it. */
    static String text(Object value) {
        return switch (value) {
            case String text -> text;
            case Long number -> number.toString();
            case Double number -> number.toString();
            case Boolean flag -> flag ? "True" : "False";
            case Word word -> word == Word.NONE ? "None" : "";
            default -> throw new Failure("a " + kind(value) + " has no text of its own; use tojson");
        };
    }

    static String kind(Object value) {
        return switch (value) {
            case String _ -> "string";
            case Number _ -> "number";
            case Boolean _ -> "boolean";
            case List<?> _ -> "list";
            case Map<?, ?> _ -> "mapping";
            case Namespace _ -> "namespace";
            case Word word -> word == Word.NONE ? "None" : "value that is not defined";
            default -> "value";
        };
    }

    /**
     * Spaced as Python's json writes it.
     *
     * @param indent of each level, 0 for all in one line
     * @param margin of this one
     */
    static String json(Object value, int indent, String margin) {
        String inner = margin + " ".repeat(indent);
        return switch (value) {
            case String text -> JSON.writeValueAsString(text);
            case Boolean flag -> flag.toString();
            case Number number -> number.toString();
            case List<?> list ->
                enclosed(
                        "[",
                        list.stream().map(item -> json(item, indent, inner)).toList(),
                        "]",
                        indent,
                        margin);
            case Map<?, ?> map ->
                enclosed(
                        "{",
                        map.entrySet().stream()
                                .map(entry -> JSON.writeValueAsString(entry.getKey()) + ": "
                                        + json(entry.getValue(), indent, inner))
                                .toList(),
                        "}",
                        indent,
                        margin);
            case Word word when word == Word.NONE -> "null";
            default -> throw new Failure("tojson: a " + kind(value) + " has no JSON");
        };
    }

    private static String enclosed(String open, List<String> items, String close, int indent, String margin) {
        if (indent == 0 || items.isEmpty()) {
            return open + String.join(", ", items) + close;
        }
        String line = "\n" + margin + " ".repeat(indent);
        return open + line + String.join("," + line, items) + "\n" + margin + close;
    }

    static Object of(JsonNode node) {
        return switch (node.getNodeType()) {
            case STRING -> node.stringValue();
            case BOOLEAN -> node.booleanValue();
            case NUMBER -> node.isIntegralNumber() ? (Object) node.longValue() : (Object) node.doubleValue();
            case ARRAY -> node.valueStream().map(Value::of).toList();
            case OBJECT ->
                node.propertyStream()
                        .collect(Collectors.toMap(
                                Map.Entry::getKey, entry -> of(entry.getValue()), (a, b) -> b, LinkedHashMap::new));
            default -> Word.NONE;
        };
    }

    /** What is wrong, before it is known where. */
    static final class Failure extends RuntimeException {
        private static final long serialVersionUID = 1;

        Failure(String message) {
            super(message);
        }
    }
}
