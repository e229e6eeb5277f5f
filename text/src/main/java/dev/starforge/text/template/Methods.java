package dev.starforge.text.template;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The methods of strings and mappings that templates call, with Python semantics; others are rejected by name. */
final class Methods {
    private Methods() {}

    static Object call(Object owner, String name, Arguments given, RenderBudget budget) {
        budget.charge(owner);
        return budget.charge(
                switch (owner) {
                    case String text -> ofText(text, name, given, budget);
                    case Map<?, ?> map -> ofMapping(map, name, given);
                    case Value.Word word
                    when word == Value.Word.UNDEFINED ->
                        throw new Value.Failure("calls " + name + " of something that is not defined");
                    default -> throw new Value.Failure("a " + Value.kind(owner) + " has no method " + name + " here");
                });
    }

    private static Object ofText(String text, String name, Arguments given, RenderBudget budget) {
        return switch (name) {
            case "strip" -> stripped(text, given, true, true);
            case "lstrip" -> stripped(text, given, true, false);
            case "rstrip" -> stripped(text, given, false, true);
            case "startswith" -> any(given.first(name)).stream().anyMatch(text::startsWith);
            case "endswith" -> any(given.first(name)).stream().anyMatch(text::endsWith);
            case "upper" -> text.toUpperCase(Locale.ROOT);
            case "lower" -> text.toLowerCase(Locale.ROOT);
            case "title" -> title(text);
            case "capitalize" -> capitalized(text);
            case "replace" -> {
                Object[] a = given.bind(name, "old", "new", "count");
                yield replaced(text, Value.string(a[0]), Value.string(a[1]), Value.whole(a[2], -1), budget);
            }
            case "find" -> {
                int at = text.indexOf(Value.string(given.first(name)));
                yield (long) (at < 0 ? at : text.codePointCount(0, at));
            }
            case "count" ->
                (long) (split(text, Value.string(given.first(name)), -1).size() - 1);
            case "split" -> {
                Object[] a = given.bind(name, "sep", "maxsplit");
                yield a[0] instanceof String by ? split(text, by, Value.whole(a[1], -1)) : words(text);
            }
            case "splitlines" -> lines(text);
            case "join" -> joined(Value.list(given.first(name)), text, budget);
            case "removeprefix" -> {
                String prefix = Value.string(given.first(name));
                yield text.startsWith(prefix) ? text.substring(prefix.length()) : text;
            }
            case "removesuffix" -> {
                String suffix = Value.string(given.first(name));
                yield text.endsWith(suffix) ? text.substring(0, text.length() - suffix.length()) : text;
            }
            case "isdigit" -> !text.isEmpty() && text.chars().allMatch(Character::isDigit);
            case "isalpha" -> !text.isEmpty() && text.chars().allMatch(Character::isLetter);
            default -> throw new Value.Failure("method " + name + " of a string is not known");
        };
    }

    /** A string, or a tuple of alternative strings. */
    private static List<String> any(Object given) {
        return given instanceof List<?> list ? list.stream().map(Value::string).toList() : List.of(Value.string(given));
    }

    private static Object ofMapping(Map<?, ?> map, String name, Arguments given) {
        return switch (name) {
            case "items" -> items(map);
            case "keys" -> new ArrayList<Object>(map.keySet());
            case "values" -> new ArrayList<Object>(map.values());
            case "get" -> {
                Object[] a = given.bind(name, "key", "default");
                Object found = Value.member(map, a[0]);
                yield found != Value.Word.UNDEFINED ? found : a[1] == Value.Word.UNDEFINED ? Value.Word.NONE : a[1];
            }
            default -> throw new Value.Failure("method " + name + " of a mapping is not known");
        };
    }

    static List<Object> items(Map<?, ?> map) {
        List<Object> items = new ArrayList<>();
        map.forEach((key, value) -> items.add(List.of(key, value)));
        return items;
    }

    private static List<Object> words(String text) {
        return Arrays.stream(stripped(text, Arguments.NONE, true, true).split("[\\s\\p{Z}]+"))
                .filter(part -> !part.isEmpty())
                .map(Object.class::cast)
                .toList();
    }

    private static List<Object> lines(String text) {
        return text.lines().map(Object.class::cast).toList();
    }

    private static List<Object> split(String text, String by, long most) {
        if (by.isEmpty()) {
            throw new Value.Failure("split: the separator is empty");
        }
        List<Object> parts = new ArrayList<>();
        int from = 0;
        for (int at = text.indexOf(by); at >= 0 && (most < 0 || parts.size() < most); at = text.indexOf(by, from)) {
            parts.add(text.substring(from, at));
            from = at + by.length();
        }
        parts.add(text.substring(from));
        return parts;
    }

    static String stripped(String text, Arguments given, boolean left, boolean right) {
        Object chars = given.bind("strip", "chars")[0];
        String set = chars instanceof Value.Word ? "" : Value.string(chars);
        int from = 0;
        int to = text.length();
        while (left && from < to && isIn(set, text.charAt(from))) {
            from++;
        }
        while (right && to > from && isIn(set, text.charAt(to - 1))) {
            to--;
        }
        return text.substring(from, to);
    }

    private static boolean isIn(String set, char c) {
        return set.isEmpty()
                ? Character.isWhitespace(c) || Character.isSpaceChar(c) || c == '\u0085'
                : set.indexOf(c) >= 0;
    }

    static String capitalized(String text) {
        return text.isEmpty()
                ? ""
                : text.substring(0, 1).toUpperCase(Locale.ROOT)
                        + text.substring(1).toLowerCase(Locale.ROOT);
    }

    static String title(String text) {
        StringBuilder out = new StringBuilder();
        boolean inside = false;
        for (char c : text.toCharArray()) {
            out.append(inside ? Character.toLowerCase(c) : Character.toUpperCase(c));
            inside = Character.isLetter(c);
        }
        return out.toString();
    }

    /** @param count number of first occurrences to replace; all if negative */
    static String replaced(String text, String from, String to, long count, RenderBudget budget) {
        if (text.contains(from)) {
            budget.requireRoom(text.length() + (text.length() / Math.max(1L, from.length()) + 1) * to.length());
        }
        if (count < 0) {
            return text.replace(from, to);
        }
        return joined(split(text, from, count), to, budget);
    }

    static String joined(List<?> items, String between, RenderBudget budget) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < items.size(); i++) {
            text.append(i == 0 ? "" : between).append(Value.text(items.get(i)));
            budget.requireRoom(text.length());
        }
        return text.toString();
    }
}
