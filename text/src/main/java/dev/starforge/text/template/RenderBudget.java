package dev.starforge.text.template;

import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * Limits the cost of rendering, since templates are untrusted. Each operation costs steps in proportion to what it
 * reads and writes, so neither loops nor operations on huge strings run for long. Values may share parts, so a small
 * value can have a huge number of nested parts; each visit is counted.
 */
final class RenderBudget {
    /** A conversation with thousands of messages uses a tenth of it. */
    private static final int MAX_STEPS = 2_000_000;

    private static final int MAX_MACRO_DEPTH = 64;
    private static final int CHARACTERS_OF_A_STEP = 64;
    private static final int ITEMS_OF_A_STEP = 4;

    /** Maximum length of strings and lists. */
    private static final int MAX_LENGTH = 16 << 20;

    private long steps;
    private int depth;

    void step() {
        spend(1);
    }

    private void spend(long more) {
        steps += more;
        if (steps > MAX_STEPS) {
            throw new Value.Failure("takes more than " + MAX_STEPS + " steps");
        }
    }

    /** Charges an operation by the size of its operand or result. */
    <T> T charge(T value) {
        spend(
                switch (value) {
                    case String text -> 1 + text.length() / CHARACTERS_OF_A_STEP;
                    case List<?> list -> 1 + list.size() / ITEMS_OF_A_STEP;
                    case Map<?, ?> map -> 1 + map.size() / ITEMS_OF_A_STEP;
                    default -> 1;
                });
        return value;
    }

    /** Rejects a result that would be too long, before it is created. */
    void requireRoom(long length) {
        if (length > MAX_LENGTH) {
            throw new Value.Failure("writes more than " + MAX_LENGTH + " characters");
        }
    }

    /** Runs a macro, which may call itself. */
    <T> T nested(Supplier<T> call) {
        if (++depth > MAX_MACRO_DEPTH) {
            throw new Value.Failure("nests too deeply: macros call macros more than " + MAX_MACRO_DEPTH + " times");
        }
        try {
            return call.get();
        } finally {
            depth--;
        }
    }
}
