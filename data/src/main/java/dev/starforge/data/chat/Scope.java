package dev.starforge.data.chat;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/** Names and their values: those of a template, and for each pass of a loop its own, which end with the pass. */
final class Scope {
    /** A conversation of thousands of messages takes a hundredth of it; loops within loops over them do not end in time. */
    private static final int MOST_STEPS = 5_000_000;

    private final @Nullable Scope outer;
    private final Map<String, Object> values = new HashMap<>();
    private final AtomicInteger steps;

    private Scope(@Nullable Scope outer, AtomicInteger steps) {
        this.outer = outer;
        this.steps = steps;
    }

    static Scope of(Map<String, Object> values) {
        Scope scope = new Scope(null, new AtomicInteger());
        scope.values.putAll(values);
        return scope;
    }

    Scope inner() {
        return new Scope(this, steps);
    }

    /** Counts a statement or a pass of a loop. */
    void step() {
        if (steps.incrementAndGet() > MOST_STEPS) {
            throw new Value.Failure("takes more than " + MOST_STEPS + " steps");
        }
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
