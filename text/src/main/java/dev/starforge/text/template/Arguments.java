package dev.starforge.text.template;

import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Positional and named arguments of a function, filter, test or macro, as in Python. */
record Arguments(List<Object> placed, Map<String, Object> named) {
    static final Arguments NONE = new Arguments(List.of(), Map.of());

    static Arguments of(Object... placed) {
        return new Arguments(List.of(placed), Map.of());
    }

    /** Returns the arguments in the order of {@code names}. Missing ones are UNDEFINED; unknown names are rejected. */
    Object[] bind(String whose, String... names) {
        if (placed.size() > names.length) {
            throw new Value.Failure(whose + ": expected at most " + names.length + " arguments, got " + placed.size());
        }
        Object[] bound = new Object[names.length];
        Arrays.fill(bound, Value.Word.UNDEFINED);
        for (int i = 0; i < placed.size(); i++) {
            bound[i] = placed.get(i);
        }
        named.forEach((name, value) -> {
            int at = List.of(names).indexOf(name);
            if (at < 0 || at < placed.size()) {
                throw new Value.Failure(whose + ": argument " + name + (at < 0 ? " is not known" : " is given twice"));
            }
            bound[at] = value;
        });
        return bound;
    }

    /** Returns the first argument, which is required. */
    Object first(String whose) {
        if (placed.isEmpty()) {
            throw new Value.Failure(whose + ": expected an argument, got none");
        }
        return placed.getFirst();
    }

    Arguments from(int place) {
        return new Arguments(placed.subList(Math.min(place, placed.size()), placed.size()), named);
    }
}
