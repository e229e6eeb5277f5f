package dev.starforge.text.template;

import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * What one rendering may cost. Templates come with models from anywhere: steps are bounded, and a step costs more when it
 * reads or writes much, so that neither a loop nor a few operations on huge strings run for long. Values that a template
 * builds share their parts, so a small one may have more parts than can be visited; every visit is counted here.
 */
final class RenderBudget {
    /** A conversation of thousands of messages takes a tenth of it. */
    private static final int MAX_STEPS = 2_000_000;

    private static final int MAX_MACRO_DEPTH = 64;
    private static final int CHARACTERS_OF_A_STEP = 64;
    private static final int ITEMS_OF_A_STEP = 4;

    /** Strings and lists longer than this are the result of a runaway loop. */
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

    /** Counts an operation by what it reads or makes. */
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

    /** Refuses what would grow beyond all measure, before it does. */
    void requireRoom(long length) {
        if (length > MAX_LENGTH) {
            throw new Value.Failure("writes more than " + MAX_LENGTH + " characters");
        }
    }

    /** A call of a macro, which may call itself. */
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
