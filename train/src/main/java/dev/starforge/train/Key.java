package dev.starforge.train;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * One setting: where it stands, what it may be, and what it is when nobody says.
 *
 * @param path section and name, with a dot between
 * @param kind what may stand there, in words
 * @param missing the default
 * @param doc what it does, for {@code docs/config.md}
 */
public record Key<T>(String path, String kind, T missing, Function<Object, T> accept, String doc) {
    /** A value that is not what the key takes. */
    static final class Refusal extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    static Key<Integer> whole(String path, int missing, int least, int most, String doc) {
        String kind = "whole number " + (most == Integer.MAX_VALUE ? "from " + least : least + ".." + most);
        return new Key<>(
                path,
                kind,
                missing,
                value -> {
                    if (value instanceof Long number && number >= least && number <= most) {
                        return number.intValue();
                    }
                    throw new Refusal();
                },
                doc);
    }

    /** A whole number, where 0 and the word {@code all} are no limit. */
    static Key<Integer> limit(String path, int missing, String doc) {
        Key<Integer> number = whole(path, missing, 0, Integer.MAX_VALUE, doc);
        return new Key<>(
                path,
                number.kind() + ", or all",
                missing,
                value -> value.equals("all") ? 0 : number.accept().apply(value),
                doc);
    }

    static Key<Double> number(String path, double missing, double least, double most, String doc) {
        String range = most == Double.MAX_VALUE ? "from " + least : least + ".." + most;
        return new Key<>(
                path,
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

    static Key<Boolean> flag(String path, boolean missing, String doc) {
        return new Key<>(
                path,
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
    static Key<String> text(String path, String missing, String doc) {
        return new Key<>(
                path,
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
    static Key<String> choice(String path, String missing, List<String> words, String doc) {
        return new Key<>(
                path,
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

    /** A list of texts, or one text. */
    static Key<List<String>> texts(String path, List<String> missing, String doc) {
        return new Key<>(
                path,
                "text or a list of texts",
                missing,
                value -> switch (value) {
                    case String text when !text.isEmpty() -> List.of(text);
                    case List<?> list
                    when list.stream().allMatch(String.class::isInstance) ->
                        list.stream().map(String.class::cast).toList();
                    default -> throw new Refusal();
                },
                doc);
    }

    /** Two numbers. */
    static Key<List<Double>> pair(String path, double first, double second, String doc) {
        return new Key<>(
                path,
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
    static Key<Map<String, Double>> weights(String path, String doc) {
        return new Key<>(
                path,
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
