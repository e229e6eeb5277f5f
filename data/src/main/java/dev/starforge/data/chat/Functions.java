package dev.starforge.data.chat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.LongStream;

/** The functions, filters, tests and operators that templates of our families use; any other is an error with its name. */
final class Functions {
    private static final int LONGEST_RANGE = 100_000;

    private Functions() {}

    static Object global(String name, List<Object> given, Map<String, Object> named) {
        return switch (name) {
            case "raise_exception" -> throw new Value.Failure("refuses the conversation: " + Value.text(given.get(0)));
            case "namespace" -> new Value.Namespace(new LinkedHashMap<>(named));
            case "range" -> {
                long from = given.size() > 1 ? whole(given.get(0)) : 0;
                long to = whole(given.get(given.size() > 1 ? 1 : 0));
                long by = given.size() > 2 ? whole(given.get(2)) : 1;
                if (by == 0 || Math.abs((to - from) / by) > LONGEST_RANGE) {
                    throw new Value.Failure("range: too long, or in steps of 0");
                }
                yield LongStream.iterate(from, i -> by > 0 ? i < to : i > to, i -> i + by)
                        .boxed()
                        .map(Object.class::cast)
                        .toList();
            }
            case "dict" -> new LinkedHashMap<>(named);
            default -> throw new Value.Failure("function " + name + " is not known");
        };
    }

    static Object method(Object owner, String name, List<Object> given) {
        return switch (owner) {
            case String text -> method(text, name, given);
            case Map<?, ?> map -> method(map, name, given);
            default -> throw new Value.Failure("a " + Value.kind(owner) + " has no method " + name + " here");
        };
    }

    private static Object method(String text, String name, List<Object> given) {
        return switch (name) {
            case "strip" -> stripped(text, given, true, true);
            case "lstrip" -> stripped(text, given, true, false);
            case "rstrip" -> stripped(text, given, false, true);
            case "startswith" -> text.startsWith(string(given.get(0)));
            case "endswith" -> text.endsWith(string(given.get(0)));
            case "upper" -> text.toUpperCase(Locale.ROOT);
            case "lower" -> text.toLowerCase(Locale.ROOT);
            case "title" -> title(text);
            case "capitalize" -> capitalized(text);
            case "replace" -> replaced(text, string(given.get(0)), string(given.get(1)));
            case "find" -> (long) text.indexOf(string(given.get(0)));
            case "split" -> split(text, given);
            default -> throw new Value.Failure("method " + name + " of a string is not known");
        };
    }

    private static List<Object> split(String text, List<Object> given) {
        if (given.isEmpty()) {
            return Arrays.stream(text.strip().split("\\s+"))
                    .filter(part -> !part.isEmpty())
                    .map(Object.class::cast)
                    .toList();
        }
        String by = string(given.get(0));
        if (by.isEmpty()) {
            throw new Value.Failure("split: the separator is empty");
        }
        long most = given.size() > 1 ? whole(given.get(1)) : -1;
        List<Object> parts = new ArrayList<>();
        int from = 0;
        for (int at = text.indexOf(by); at >= 0 && (most < 0 || parts.size() < most); at = text.indexOf(by, from)) {
            parts.add(text.substring(from, at));
            from = at + by.length();
        }
        parts.add(text.substring(from));
        return parts;
    }

    private static String stripped(String text, List<Object> given, boolean left, boolean right) {
        String set = given.isEmpty() ? "" : string(given.get(0));
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
        return set.isEmpty() ? Character.isWhitespace(c) || c == '\u00a0' : set.indexOf(c) >= 0;
    }

    private static String capitalized(String text) {
        return text.isEmpty()
                ? ""
                : text.substring(0, 1).toUpperCase(Locale.ROOT)
                        + text.substring(1).toLowerCase(Locale.ROOT);
    }

    private static String title(String text) {
        StringBuilder out = new StringBuilder();
        boolean inside = false;
        for (char c : text.toCharArray()) {
            out.append(inside ? Character.toLowerCase(c) : Character.toUpperCase(c));
            inside = Character.isLetter(c);
        }
        return out.toString();
    }

    private static Object method(Map<?, ?> map, String name, List<Object> given) {
        return switch (name) {
            case "items" -> items(map);
            case "keys" -> new ArrayList<Object>(map.keySet());
            case "values" -> new ArrayList<Object>(map.values());
            case "get" -> {
                Object missing = given.size() > 1 ? given.get(1) : Value.Word.NONE;
                yield map.containsKey(given.get(0)) ? map.get(given.get(0)) : missing;
            }
            default -> throw new Value.Failure("method " + name + " of a mapping is not known");
        };
    }

    private static List<Object> items(Map<?, ?> map) {
        List<Object> items = new ArrayList<>();
        map.forEach((key, value) -> items.add(List.of(key, value)));
        return items;
    }

    static Object filter(String name, Object of, List<Object> given) {
        return switch (name) {
            case "trim" -> stripped(string(of), given, true, true);
            case "length", "count" -> (long) (of instanceof String text ? text.length() : size(of));
            case "tojson" -> {
                if (!given.isEmpty()) {
                    throw new Value.Failure("filter tojson with arguments is not known");
                }
                yield Value.json(of, 0, "");
            }
            case "upper" -> string(of).toUpperCase(Locale.ROOT);
            case "lower" -> string(of).toLowerCase(Locale.ROOT);
            case "title" -> title(string(of));
            case "capitalize" -> capitalized(string(of));
            case "string" -> Value.text(of);
            case "int" ->
                of instanceof Number number
                        ? number.longValue()
                        : Long.parseLong(string(of).strip());
            case "safe" -> of;
            case "list" -> list(of);
            case "items" -> items((Map<?, ?>) of);
            case "first" -> list(of).isEmpty() ? Value.Word.UNDEFINED : list(of).getFirst();
            case "last" -> list(of).isEmpty() ? Value.Word.UNDEFINED : list(of).getLast();
            case "join" -> joined(list(of), given.isEmpty() ? "" : string(given.get(0)));
            case "replace" -> replaced(string(of), string(given.get(0)), string(given.get(1)));
            case "default", "d" -> {
                boolean falsy = given.size() > 1 && Value.isTrue(given.get(1));
                boolean missing = of == Value.Word.UNDEFINED || falsy && !Value.isTrue(of);
                yield missing ? (given.isEmpty() ? "" : given.get(0)) : of;
            }
            case "selectattr", "rejectattr" -> {
                boolean wanted = name.equals("selectattr");
                yield list(of).stream()
                        .filter(item -> chosen(item, given) == wanted)
                        .toList();
            }
            default -> throw new Value.Failure("filter " + name + " is not known");
        };
    }

    /** tojson as it is asked for: characters are always written as they are. */
    static String json(Object of, Map<String, Object> named) {
        int indent = 0;
        for (Map.Entry<String, Object> argument : named.entrySet()) {
            switch (argument.getKey()) {
                case "indent" -> indent = argument.getValue() == Value.Word.NONE ? 0 : (int) whole(argument.getValue());
                case "ensure_ascii" -> {
                    if (!argument.getValue().equals(false)) {
                        throw new Value.Failure("tojson: ensure_ascii: expected false");
                    }
                }
                default -> throw new Value.Failure("tojson: argument " + argument.getKey() + " is not known");
            }
        }
        return Value.json(of, indent, "");
    }

    private static boolean chosen(Object item, List<Object> given) {
        Object field = item instanceof Map<?, ?> map && map.containsKey(given.get(0))
                ? map.get(given.get(0))
                : Value.Word.UNDEFINED;
        return given.size() == 1
                ? Value.isTrue(field)
                : test(string(given.get(1)), field, given.subList(2, given.size()));
    }

    static boolean test(String name, Object of, List<Object> given) {
        return switch (name) {
            case "defined" -> of != Value.Word.UNDEFINED;
            case "undefined" -> of == Value.Word.UNDEFINED;
            case "none" -> of == Value.Word.NONE;
            case "string" -> of instanceof String;
            case "number" -> of instanceof Number;
            case "integer" -> of instanceof Long;
            case "boolean" -> of instanceof Boolean;
            case "true" -> of.equals(true);
            case "false" -> of.equals(false);
            case "mapping" -> of instanceof Map;
            case "sequence", "iterable" -> of instanceof String || of instanceof List || of instanceof Map;
            case "equalto", "eq", "==" -> Value.same(of, given.get(0));
            case "ne", "!=" -> !Value.same(of, given.get(0));
            case "in" -> contains(given.get(0), of);
            case "odd" -> whole(of) % 2 != 0;
            case "even" -> whole(of) % 2 == 0;
            default -> throw new Value.Failure("test " + name + " is not known");
        };
    }

    static Object binary(String operator, Object a, Object b) {
        return switch (operator) {
            case "==" -> Value.same(a, b);
            case "!=" -> !Value.same(a, b);
            case "in" -> contains(b, a);
            case "not in" -> !contains(b, a);
            case "~" -> both(Value.text(a), Value.text(b));
            case "<" -> compare(a, b) < 0;
            case ">" -> compare(a, b) > 0;
            case "<=" -> compare(a, b) <= 0;
            case ">=" -> compare(a, b) >= 0;
            default -> arithmetic(operator, a, b);
        };
    }

    static Object arithmetic(String operator, Object a, Object b) {
        if (operator.equals("+") && a instanceof String left && b instanceof String right) {
            return both(left, right);
        }
        if (operator.equals("+") && a instanceof List<?> left && b instanceof List<?> right) {
            Value.requireRoom((long) left.size() + right.size());
            List<Object> both = new ArrayList<>(left);
            both.addAll(right);
            return both;
        }
        if (!(a instanceof Number) || !(b instanceof Number)) {
            throw new Value.Failure(operator + " between a " + Value.kind(a) + " and a " + Value.kind(b));
        }
        double left = ((Number) a).doubleValue();
        double right = ((Number) b).doubleValue();
        if (right == 0 && List.of("/", "//", "%").contains(operator)) {
            throw new Value.Failure(operator + " by zero");
        }
        double result = switch (operator) {
            case "+" -> left + right;
            case "-" -> left - right;
            case "*" -> left * right;
            case "/" -> left / right;
            case "//" -> Math.floor(left / right);
            case "%" -> left - right * Math.floor(left / right);
            default -> throw new Value.Failure("operator " + operator + " is not known");
        };
        boolean whole = a instanceof Long && b instanceof Long && !operator.equals("/");
        return whole ? (Object) (long) result : (Object) result;
    }

    private static String both(String a, String b) {
        Value.requireRoom((long) a.length() + b.length());
        return a + b;
    }

    private static String replaced(String text, String from, String to) {
        long most = text.length() + (text.length() / Math.max(1L, from.length()) + 1) * to.length();
        if (text.contains(from)) {
            Value.requireRoom(most);
        }
        return text.replace(from, to);
    }

    private static String joined(List<?> items, String between) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < items.size(); i++) {
            text.append(i == 0 ? "" : between).append(Value.text(items.get(i)));
            Value.requireRoom(text.length());
        }
        return text.toString();
    }

    private static int compare(Object a, Object b) {
        if (a instanceof Number left && b instanceof Number right) {
            return Double.compare(left.doubleValue(), right.doubleValue());
        }
        if (a instanceof String left && b instanceof String right) {
            return left.compareTo(right);
        }
        throw new Value.Failure("compares a " + Value.kind(a) + " with a " + Value.kind(b));
    }

    private static boolean contains(Object whole, Object part) {
        return switch (whole) {
            case String text -> text.contains(string(part));
            case List<?> list -> list.stream().anyMatch(item -> Value.same(item, part));
            case Map<?, ?> map -> map.containsKey(part);
            default -> throw new Value.Failure("in: a " + Value.kind(whole) + " holds nothing");
        };
    }

    private static int size(Object of) {
        return of instanceof Map<?, ?> map ? map.size() : list(of).size();
    }

    /** What a loop goes over. */
    static List<?> list(Object of) {
        return switch (of) {
            case List<?> list -> list;
            case Map<?, ?> map -> List.copyOf(map.keySet());
            case String text -> text.codePoints().mapToObj(Character::toString).toList();
            default -> throw new Value.Failure("a " + Value.kind(of) + " is no list");
        };
    }

    private static String string(Object of) {
        if (of instanceof String text) {
            return text;
        }
        throw new Value.Failure("expected a string, got a " + Value.kind(of));
    }

    private static long whole(Object of) {
        if (of instanceof Long number) {
            return number;
        }
        throw new Value.Failure("expected a whole number, got a " + Value.kind(of));
    }
}
