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
 * settings as a table of these; a {@link Schema} joins tables.
 *
 * @param path sections and name, with dots between
 * @param kind what may stand there, in words
 * @param missing the default
 * @param accept turns what a file says into a value, or throws {@link Refusal}
 * @param doc what it does, in one line
 * @param aliases other names, valid in any section, since configs found in the wild put them anywhere
 */
public record Key<T>(
        String path, Form form, String kind, T missing, Function<Object, T> accept, String doc, List<Alias> aliases) {

    /** How a value is written. */
    public enum Form {
        VALUE,
        /** Numbers are text, too. */
        TEXT,
        /** One of some words, never quoted. */
        WORD,
        /** A number that is {@code auto} unless it is set. */
        FITTED,
        /** A list, which commas divide on the command line. */
        PATTERNS
    }

    /** Another name; {@code words} translates values, and what it does not have stays. */
    public record Alias(String name, Map<String, Object> words) {}

    /** A value that is not what the key takes. */
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

    /** A value as messages and tables show it. */
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

    /** A whole number of 64 bits. */
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

    /** A whole number, where 0 and the word {@code all} are no limit. */
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
     * A whole number with the default {@code auto}, which is fitted to the machine.
     *
     * @param first what the fitting begins with
     */
    public static Key<Integer> fitted(String path, int first, int least, int most, String doc) {
        Key<Integer> number = integer(path, first, least, most, doc);
        return of(path, Form.FITTED, number.kind() + ", or auto", first, number.accept(), doc);
    }

    /** A whole number, or {@code auto}, the default: empty. */
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

    /** Any text; null in the file is the empty one. */
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

    /** One of a few words; true, false and null are words, too. */
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

    /** One of the names of an enum, in small letters. */
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

    /** A list of patterns for paths, or one; none by default. */
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

    /** Names with a number above 0 each. */
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
