package dev.starforge.kernels;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Op;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Operations that take the time of being started wait here until the next one shows whether it is the one that a {@link Pattern}
 * expects, and are one launch then. It writes every tensor that they would write apart, so only the time differs; whoever is about
 * to look at memory, or to take it away, lets what waits go first.
 */
final class Neighbours {
    /** An operation that waits. */
    record Held(Op op, Tensor[] in, Tensor[] out) {}

    /** Operations in a row that one launch computes. */
    interface Pattern {
        boolean begins(Held first);

        /** Whether {@code next} is expected behind those that wait. */
        boolean follows(List<Held> held, Held next);

        boolean isWhole(List<Held> held);

        /** Launches all of them, also if more were expected. */
        void launch(List<Held> held);
    }

    private final List<Pattern> patterns;
    private final List<Held> held = new ArrayList<>();
    private Optional<Pattern> begun = Optional.empty();

    Neighbours(Pattern... patterns) {
        this.patterns = List.of(patterns);
    }

    /** Whether an operation is taken; what waits is launched if it is not the one that was expected. */
    boolean takes(Op op, Tensor[] in, Tensor[] out) {
        Held next = new Held(op, in, out);
        if (begun.isPresent() && !begun.get().follows(held, next)) {
            flush();
        }
        if (begun.isEmpty()) {
            begun = patterns.stream().filter(each -> each.begins(next)).findFirst();
        }
        if (begun.isEmpty()) {
            return false;
        }
        held.add(next);
        if (begun.get().isWhole(held)) {
            flush();
        }
        return true;
    }

    /** Launches what waits. */
    void flush() {
        Optional<Pattern> pattern = begun;
        List<Held> all = List.copyOf(held);
        begun = Optional.empty();
        held.clear();
        pattern.ifPresent(each -> each.launch(all));
    }

    /** Whether two tensors are the same bytes. */
    static boolean same(Tensor a, Tensor b) {
        return a.memory().equals(b.memory())
                && a.offset() == b.offset()
                && a.bytes() == b.bytes()
                && a.dtype() == b.dtype();
    }

    static boolean overlap(Tensor a, Tensor b) {
        return a.memory().equals(b.memory())
                && a.offset() < b.offset() + b.bytes()
                && b.offset() < a.offset() + a.bytes();
    }
}
