package dev.starforge.data.chat;

import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Names and their values: those of a template, and for each pass of a loop its own, which end with the pass. */
final class Scope {
    private final @Nullable Scope outer;
    private final Map<String, Object> values = new HashMap<>();

    private Scope(@Nullable Scope outer) {
        this.outer = outer;
    }

    static Scope of(Map<String, Object> values) {
        Scope scope = new Scope(null);
        scope.values.putAll(values);
        return scope;
    }

    Scope inner() {
        return new Scope(this);
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
