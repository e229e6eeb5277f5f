package dev.starforge.data.chat;

import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Names and their values: those of a template, and for each pass of a loop or call of a macro its own. */
final class Scope {
    private final @Nullable Scope outer;
    private final Map<String, Object> values = new HashMap<>();
    private final Budget budget;

    private Scope(@Nullable Scope outer, Budget budget) {
        this.outer = outer;
        this.budget = budget;
    }

    static Scope of(Map<String, Object> values) {
        Scope scope = new Scope(null, new Budget());
        scope.values.putAll(values);
        return scope;
    }

    Scope inner() {
        return new Scope(this, budget);
    }

    Budget budget() {
        return budget;
    }

    void set(String name, Object value) {
        values.put(name, value);
    }

    Object get(String name) {
        Object value = values.get(name);
        if (value != null) {
            return value;
        }
        return outer == null ? Value.Word.UNDEFINED : outer.get(name);
    }
}
