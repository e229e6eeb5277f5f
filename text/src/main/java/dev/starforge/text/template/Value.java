package dev.starforge.text.template;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import tools.jackson.databind.JsonNode;

/**
 * The values of templates: strings, integers as {@code Long}, {@code Double}, {@code Boolean}, lists, maps with string
 * keys, {@link Namespace}, functions, and the constants of {@link Word}. Semantics are Python's where templates rely on
 * them.
 */
final class Value {
    /** Python's None, and Jinja's undefined. */
    enum Word {
        NONE,
        UNDEFINED
    }

    /** The only value that a template can change from within a loop. */
    record Namespace(Map<String, Object> fields) {}

    /** A callable: a built-in function or a macro. */
    @FunctionalInterface
    interface Function {
        Object call(Arguments given, RenderBudget budget);
    }

    private Value() {}

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

    /** Formats a value for output. */
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
            case Function _ -> "function";
            case Word word -> word == Word.NONE ? "None" : "value that is not defined";
            default -> "value";
        };
    }

    /** Returns the items to iterate over; empty for undefined values. */
    static List<?> list(Object of) {
        return switch (of) {
            case List<?> list -> list;
            case Map<?, ?> map -> new ArrayList<Object>(map.keySet());
            case String text -> text.codePoints().mapToObj(Character::toString).toList();
            case Word word when word == Word.UNDEFINED -> List.of();
            default -> throw new Failure("a " + kind(of) + " is no list");
        };
    }

    static String string(Object of) {
        if (of instanceof String text) {
            return text;
        }
        throw new Failure("expected a string, got a " + kind(of));
    }

    static long whole(Object of) {
        if (of instanceof Long number) {
            return number;
        }
        throw new Failure("expected a whole number, got a " + kind(of));
    }

    /** @param missing value for None or undefined */
    static long whole(Object of, long missing) {
        return of instanceof Word ? missing : whole(of);
    }

    /** {@code a.b}, {@code a['b']}, {@code a[0]}. */
    static Object member(Object owner, Object key) {
        return switch (owner) {
            case Map<?, ?> map
            when key instanceof String -> {
                Object found = map.get(key);
                yield found == null ? Word.UNDEFINED : found;
            }
            case Namespace space -> space.fields().getOrDefault(text(key), Word.UNDEFINED);
            case List<?> list when key instanceof Long at -> item(list, at);
            case String text when key instanceof Long at -> item(list(text), at);
            case Word word
            when word == Word.UNDEFINED ->
                throw new Failure("asks for " + text(key) + " of something that is not defined");
            default -> Word.UNDEFINED;
        };
    }

    private static Object item(List<?> list, long at) {
        long index = at < 0 ? at + list.size() : at;
        return index >= 0 && index < list.size() ? list.get((int) index) : Word.UNDEFINED;
    }

    /** A member by a dotted name, as in filter arguments. */
    static Object path(Object owner, Object name) {
        if (!(name instanceof String names)) {
            return member(owner, name);
        }
        Object found = owner;
        for (String part : names.split("\\.")) {
            found = found == Word.UNDEFINED
                    ? found
                    : member(found, part.matches("[0-9]{1,9}") ? (Object) Long.valueOf(part) : part);
        }
        return found;
    }

    static Object of(JsonNode node) {
        return switch (node.getNodeType()) {
            case STRING -> node.stringValue();
            case BOOLEAN -> node.booleanValue();
            case NUMBER ->
                node.isIntegralNumber() && node.canConvertToLong()
                        ? (Object) node.longValue()
                        : (Object) node.doubleValue();
            case ARRAY -> node.valueStream().map(Value::of).toList();
            case OBJECT ->
                node.propertyStream()
                        .collect(Collectors.toMap(
                                Map.Entry::getKey, entry -> of(entry.getValue()), (a, b) -> b, LinkedHashMap::new));
            default -> Word.NONE;
        };
    }

    /** An error whose location is added later. */
    static final class Failure extends RuntimeException {
        private static final long serialVersionUID = 1;

        Failure(String message) {
            super(message);
        }
    }
}
