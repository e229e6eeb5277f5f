package dev.starforge.kernels;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Op;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Fuses short operations, whose launch takes most of their time. An operation that may start a {@link Pattern} is held back until the next
 * ones show whether they continue it; a complete pattern is one launch. The launch writes the same tensors as separate ones, so only the
 * time differs. Callers flush before they access or release memory.
 */
final class FusionPatterns {
    /** An operation that is held back. */
    record PendingOp(Op op, Tensor[] in, Tensor[] out) {}

    /** A sequence of operations that one launch computes. */
    interface Pattern {
        boolean startsWith(PendingOp first);

        /** Returns true if {@code next} continues the pattern. */
        boolean continuesWith(List<PendingOp> held, PendingOp next);

        boolean isComplete(List<PendingOp> held);

        /** Launches the operations, fused if the pattern is complete. */
        void launch(List<PendingOp> held);
    }

    private final List<Pattern> patterns;
    private final List<PendingOp> pending = new ArrayList<>();
    private Optional<Pattern> pattern = Optional.empty();

    FusionPatterns(Pattern... patterns) {
        this.patterns = List.of(patterns);
    }

    /** Returns true if the operation is held back or launched here. Pending operations that it does not continue are launched first. */
    boolean offer(Op op, Tensor[] in, Tensor[] out) {
        PendingOp next = new PendingOp(op, in, out);
        if (pattern.isPresent() && !pattern.get().continuesWith(pending, next)) {
            flush();
        }
        if (pattern.isEmpty()) {
            pattern = patterns.stream().filter(each -> each.startsWith(next)).findFirst();
        }
        if (pattern.isEmpty()) {
            return false;
        }
        pending.add(next);
        if (pattern.get().isComplete(pending)) {
            flush();
        }
        return true;
    }

    /** Launches pending operations. */
    void flush() {
        Optional<Pattern> started = pattern;
        List<PendingOp> all = List.copyOf(pending);
        pattern = Optional.empty();
        pending.clear();
        started.ifPresent(each -> each.launch(all));
    }

    /** Returns true if two tensors share type and memory. */
    static boolean isSameTensor(Tensor a, Tensor b) {
        return a.memory().equals(b.memory())
                && a.offset() == b.offset()
                && a.bytes() == b.bytes()
                && a.dtype() == b.dtype();
    }

    static boolean overlaps(Tensor a, Tensor b) {
        return a.memory().equals(b.memory())
                && a.offset() < b.offset() + b.bytes()
                && b.offset() < a.offset() + a.bytes();
    }
}
