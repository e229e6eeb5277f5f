package dev.starforge.text.template;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;

/** The Jinja filters that chat templates use; others are rejected by name. */
final class Filters {
    private Filters() {}

    static Object apply(String name, Object of, Arguments given, RenderBudget budget) {
        budget.charge(of);
        return budget.charge(filter(name, of, given, budget));
    }

    private static Object filter(String name, Object of, Arguments given, RenderBudget budget) {
        return switch (name) {
            case "trim" -> Methods.stripped(Value.string(of), given, true, true);
            case "upper", "lower", "title", "capitalize" -> Methods.call(Value.string(of), name, given, budget);
            case "replace" -> {
                Object[] a = given.bind(name, "old", "new", "count");
                yield Methods.replaced(
                        Value.string(of), Value.string(a[0]), Value.string(a[1]), Value.whole(a[2], -1), budget);
            }
            case "indent" -> indented(Value.string(of), given.bind(name, "width", "first", "blank"), budget);
            case "string" -> Value.text(of);
            case "safe" -> of;
            case "tojson" -> TemplateJson.write(of, given, budget);
            case "int" -> whole(of, given.bind(name, "default")[0]);
            case "float" -> real(of, given.bind(name, "default")[0]);
            case "abs" -> Operators.compare(of, 0L) < 0 ? Operators.arithmetic("-", 0L, of, budget) : of;
            case "default", "d" -> {
                Object[] a = given.bind(name, "default_value", "boolean");
                boolean missing = of == Value.Word.UNDEFINED || Value.isTrue(a[1]) && !Value.isTrue(of);
                yield missing ? (a[0] == Value.Word.UNDEFINED ? "" : a[0]) : of;
            }
            case "length", "count" ->
                (long) (of instanceof String text ? text.codePointCount(0, text.length()) : size(of));
            default -> ofList(name, of, given, budget);
        };
    }

    private static Object ofList(String name, Object of, Arguments given, RenderBudget budget) {
        return switch (name) {
            case "list" -> Value.list(of);
            case "items" -> of == Value.Word.UNDEFINED ? List.of() : Methods.items(mapping(name, of));
            case "dictsort" ->
                Methods.items(mapping(name, of)).stream()
                        .sorted(Comparator.comparing(
                                item -> ((List<?>) item).getFirst(), by(false, Operators::compare)))
                        .toList();
            case "first" ->
                Value.list(of).isEmpty() ? Value.Word.UNDEFINED : Value.list(of).getFirst();
            case "last" ->
                Value.list(of).isEmpty() ? Value.Word.UNDEFINED : Value.list(of).getLast();
            case "reverse" ->
                of instanceof String text
                        ? new StringBuilder(text).reverse().toString()
                        : Value.list(of).reversed();
            case "join" -> {
                Object[] a = given.bind(name, "d", "attribute");
                List<?> items = Value.list(of).stream().map(attribute(a[1])).toList();
                yield Methods.joined(items, a[0] == Value.Word.UNDEFINED ? "" : Value.string(a[0]), budget);
            }
            case "sort" -> sorted(Value.list(of), given.bind(name, "reverse", "case_sensitive", "attribute"));
            case "unique" -> unique(Value.list(of), budget);
            case "map" -> mapped(Value.list(of), given, budget);
            case "select" -> chosen(of, item -> passes(item, given, budget));
            case "reject" -> chosen(of, item -> !passes(item, given, budget));
            case "selectattr" -> chosen(of, item -> passes(field(item, given), given.from(1), budget));
            case "rejectattr" -> chosen(of, item -> !passes(field(item, given), given.from(1), budget));
            default -> throw new Value.Failure("filter " + name + " is not known");
        };
    }

    private static Map<?, ?> mapping(String name, Object of) {
        if (of instanceof Map<?, ?> map) {
            return map;
        }
        throw new Value.Failure(name + ": expected a mapping, got a " + Value.kind(of));
    }

    private static int size(Object of) {
        return of instanceof Map<?, ?> map ? map.size() : Value.list(of).size();
    }

    private static Object whole(Object of, Object otherwise) {
        Object missing = otherwise == Value.Word.UNDEFINED ? 0L : otherwise;
        return switch (of) {
            case Number number -> number.longValue();
            case Boolean flag -> flag ? 1L : 0L;
            case String text when text.strip().matches("[+-]?[0-9]{1,18}") -> Long.parseLong(text.strip());
            default -> missing;
        };
    }

    private static Object real(Object of, Object otherwise) {
        Object missing = otherwise == Value.Word.UNDEFINED ? 0.0 : otherwise;
        return switch (of) {
            case Number number -> number.doubleValue();
            case String text
            when text.strip().matches("[+-]?[0-9]{1,18}(\\.[0-9]{0,18})?") -> Double.parseDouble(text.strip());
            default -> missing;
        };
    }

    private static String indented(String text, Object[] a, RenderBudget budget) {
        String margin = a[0] instanceof String given ? given : " ".repeat(Math.clamp(Value.whole(a[0], 4), 0, 99));
        List<String> lines = List.of(text.split("\n", -1));
        budget.requireRoom(text.length() + (long) lines.size() * margin.length());
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < lines.size(); i++) {
            String line = lines.get(i);
            boolean moved = i == 0 ? Value.isTrue(a[1]) : !line.isEmpty() || Value.isTrue(a[2]);
            out.append(i == 0 ? "" : "\n").append(moved ? margin : "").append(line);
        }
        return out.toString();
    }

    /** Returns a function that reads an attribute of each item, or the identity if no attribute is given. */
    private static Function<Object, Object> attribute(Object name) {
        return name == Value.Word.UNDEFINED ? item -> item : item -> Value.path(item, name);
    }

    private static Object field(Object item, Arguments given) {
        return Value.path(item, given.first("attribute"));
    }

    private static boolean passes(Object item, Arguments given, RenderBudget budget) {
        budget.step();
        return given.placed().isEmpty()
                ? Value.isTrue(item)
                : Operators.test(Value.string(given.placed().getFirst()), item, given.from(1), budget);
    }

    private static List<Object> chosen(Object of, Predicate<Object> which) {
        List<Object> chosen = new ArrayList<>();
        for (Object item : Value.list(of)) {
            if (which.test(item)) {
                chosen.add(item);
            }
        }
        return chosen;
    }

    private static List<Object> mapped(List<?> items, Arguments given, RenderBudget budget) {
        List<Object> mapped = new ArrayList<>();
        if (!given.placed().isEmpty()) {
            String name = Value.string(given.placed().getFirst());
            items.forEach(item -> mapped.add(apply(name, item, given.from(1), budget)));
            return mapped;
        }
        Object[] a = given.bind("map", "attribute", "default");
        for (Object item : items) {
            Object found = attribute(a[0]).apply(item);
            mapped.add(found == Value.Word.UNDEFINED ? a[1] : found);
        }
        return mapped;
    }

    private static List<Object> unique(List<?> items, RenderBudget budget) {
        List<Object> kept = new ArrayList<>();
        for (Object item : items) {
            if (kept.stream().noneMatch(other -> Operators.same(other, item, budget))) {
                kept.add(item);
            }
        }
        return kept;
    }

    private static List<?> sorted(List<?> items, Object[] a) {
        Comparator<Object> order = by(Value.isTrue(a[1]), Operators::compare);
        Comparator<Object> byKey = Comparator.comparing(attribute(a[2]), order);
        return items.stream()
                .map(Object.class::cast)
                .sorted(Value.isTrue(a[0]) ? byKey.reversed() : byKey)
                .toList();
    }

    /** Jinja sorts case-insensitively by default. */
    private static Comparator<Object> by(boolean cased, Comparator<Object> order) {
        return cased
                ? order
                : Comparator.comparing(
                        value -> value instanceof String text ? text.toLowerCase(Locale.ROOT) : value, order);
    }
}
