package dev.starforge.text.config;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalInt;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * A config key: its name, its allowed values, its default, and its names in other programs. A module declares its
 * settings as a table of keys; a {@link Schema} joins tables.
 *
 * @param path section and name, joined by a dot
 * @param kind description of the allowed values
 * @param missing the default
 * @param accept converts a parsed value, or throws {@link Refusal}
 * @param doc description in one line
 * @param aliases other names, valid in any section, since existing configs have them in various sections
 */
public record Key<T>(
        String path, Form form, String kind, T missing, Function<Object, T> accept, String doc, List<Alias> aliases) {

    /** The syntax of a value. */
    public enum Form {
        VALUE,
        /** A string, which may look like a number. */
        TEXT,
        /** One of several fixed words, never quoted. */
        WORD,
        /** A number with the default {@code auto}. */
        FITTED,
        /** A list, separated by commas on the command line. */
        PATTERNS
    }

    /** Another name of a key; {@code words} translates values. Values without a translation do not change. */
    public record Alias(String name, Map<String, Object> words) {}

    /** Thrown for a value that the key does not allow. */
    static final class Refusal extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    public Key<T> alias(String name) {
        return alias(name, Map.of());
    }

    public Key<T> alias(String name, Map<String, Object> words) {
        List<Alias> more = new ArrayList<>(aliases);
        more.add(new Alias(name, words));
        return new Key<>(path, form, kind, missing, accept, doc, List.copyOf(more));
    }

    /** Formats a value for messages and tables. */
    static String shown(Object value) {
        return switch (value) {
            case OptionalInt number when number.isEmpty() -> "auto";
            case OptionalInt number -> String.valueOf(number.getAsInt());
            case Enum<?> word -> word.name().toLowerCase(Locale.ROOT);
            default -> String.valueOf(value);
        };
    }

    private static <T> Key<T> of(
            String path, Form form, String kind, T missing, Function<Object, T> accept, String doc) {
        return new Key<>(path, form, kind, missing, accept, doc, List.of());
    }

    public static Key<Integer> integer(String path, int missing, int least, int most, String doc) {
        Key<Long> wide = longInteger(path, missing, least, most, doc);
        return of(
                path,
                Form.VALUE,
                wide.kind(),
                missing,
                value -> wide.accept().apply(value).intValue(),
                doc);
    }

    /** A 64-bit integer. */
    public static Key<Long> longInteger(String path, long missing, long least, long most, String doc) {
        boolean open = most == Integer.MAX_VALUE || most == Long.MAX_VALUE;
        String range = !open ? " " + least + ".." + most : least == Long.MIN_VALUE ? "" : " from " + least;
        return of(
                path,
                Form.VALUE,
                "whole number" + range,
                missing,
                value -> {
                    if (value instanceof Long number && number >= least && number <= most) {
                        return number;
                    }
                    throw new Refusal();
                },
                doc);
    }

    /** An integer, where 0 or the word {@code all} means no limit. */
    public static Key<Integer> limit(String path, int missing, String doc) {
        Key<Integer> number = integer(path, missing, 0, Integer.MAX_VALUE, doc);
        return of(
                path,
                Form.VALUE,
                number.kind() + ", or all",
                missing,
                value -> value.equals("all") ? 0 : number.accept().apply(value),
                doc);
    }

    /**
     * An integer with the default {@code auto}, which is fitted to the machine.
     *
     * @param first initial value of the fitting
     */
    public static Key<Integer> fitted(String path, int first, int least, int most, String doc) {
        Key<Integer> number = integer(path, first, least, most, doc);
        return of(path, Form.FITTED, number.kind() + ", or auto", first, number.accept(), doc);
    }

    /** An integer or {@code auto}, which is the default and gives an empty value. */
    public static Key<OptionalInt> automatic(String path, int least, int most, String doc) {
        Key<Integer> number = integer(path, least, least, most, doc);
        return of(
                path,
                Form.WORD,
                number.kind() + ", or auto",
                OptionalInt.empty(),
                value -> value.equals("auto")
                        ? OptionalInt.empty()
                        : OptionalInt.of(number.accept().apply(value)),
                doc);
    }

    public static Key<Double> number(String path, double missing, double least, double most, String doc) {
        String range = most == Double.MAX_VALUE ? "from " + least : least + ".." + most;
        return of(
                path,
                Form.VALUE,
                "number " + range,
                missing,
                value -> {
                    if (value instanceof Number number
                            && number.doubleValue() >= least
                            && number.doubleValue() <= most) {
                        return number.doubleValue();
                    }
                    throw new Refusal();
                },
                doc);
    }

    public static Key<Boolean> flag(String path, boolean missing, String doc) {
        return of(
                path,
                Form.VALUE,
                "true or false",
                missing,
                value -> {
                    if (value instanceof Boolean flag) {
                        return flag;
                    }
                    throw new Refusal();
                },
                doc);
    }

    /** A string; null in the file is the empty string. */
    public static Key<String> text(String path, String missing, String doc) {
        return of(
                path,
                Form.TEXT,
                "text",
                missing,
                value -> {
                    if (value instanceof String text) {
                        return text;
                    }
                    throw new Refusal();
                },
                doc);
    }

    /** One of several words; true, false and null are words as well. */
    public static Key<String> choice(String path, String missing, List<String> words, String doc) {
        return of(
                path,
                Form.WORD,
                "one of " + String.join(", ", words),
                missing,
                value -> {
                    String word = value instanceof String text && text.isEmpty() ? "null" : String.valueOf(value);
                    if (words.contains(word)) {
                        return word;
                    }
                    throw new Refusal();
                },
                doc);
    }

    /** One of the names of an enum, in lower case. */
    public static <E extends Enum<E>> Key<E> choice(String path, E missing, String doc) {
        Class<E> type = missing.getDeclaringClass();
        List<String> words = Stream.of(type.getEnumConstants()).map(Key::shown).toList();
        Key<String> word = choice(path, shown(missing), words, doc);
        return of(
                path,
                Form.WORD,
                word.kind(),
                missing,
                value -> Enum.valueOf(type, word.accept().apply(value).toUpperCase(Locale.ROOT)),
                doc);
    }

    /** A list of strings, or one string. */
    public static Key<List<String>> strings(String path, List<String> missing, String doc) {
        return of(path, Form.VALUE, "text or a list of texts", missing, Key::list, doc);
    }

    /** A path pattern or a list of them; empty by default. */
    public static Key<List<String>> patterns(String path, String doc) {
        return of(path, Form.PATTERNS, "pattern or a list of patterns", List.of(), Key::list, doc);
    }

    private static List<String> list(Object value) {
        return switch (value) {
            case String text when !text.isEmpty() -> List.of(text);
            case List<?> list
            when list.stream().allMatch(String.class::isInstance) ->
                list.stream().map(String.class::cast).toList();
            default -> throw new Refusal();
        };
    }

    /** Two numbers. */
    public static Key<List<Double>> pair(String path, double first, double second, String doc) {
        return of(
                path,
                Form.VALUE,
                "two numbers from 0 to below 1",
                List.of(first, second),
                value -> {
                    if (value instanceof List<?> list
                            && list.size() == 2
                            && list.stream()
                                    .allMatch(item ->
                                            item instanceof Number n && n.doubleValue() >= 0 && n.doubleValue() < 1)) {
                        return list.stream()
                                .map(item -> ((Number) item).doubleValue())
                                .toList();
                    }
                    throw new Refusal();
                },
                doc);
    }

    /** Positive numbers by name. */
    public static Key<Map<String, Double>> weights(String path, String doc) {
        return of(
                path,
                Form.VALUE,
                "names with a number above 0 each",
                Map.of(),
                value -> {
                    Map<String, Double> weights = new LinkedHashMap<>();
                    if (!(value instanceof Map<?, ?> map)) {
                        throw new Refusal();
                    }
                    map.forEach((name, weight) -> {
                        if (!(weight instanceof Number number && number.doubleValue() > 0)) {
                            throw new Refusal();
                        }
                        weights.put(String.valueOf(name), number.doubleValue());
                    });
                    return weights;
                },
                doc);
    }
}
