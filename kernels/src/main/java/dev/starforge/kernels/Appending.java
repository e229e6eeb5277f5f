package dev.starforge.kernels;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.util.ArrayList;
import java.util.List;

/**
 * Queries and keys are rotated, keys and values stored: four operations that follow each other in every layer, and that for few
 * tokens take the time of being started, four times. They wait here until the next one shows whether it is the one that
 * is expected, and are one launch then. It writes every tensor that they would write apart, so only the time differs; whoever
 * is about to look at memory, or to take it away, lets what waits go first.
 */
final class Appending {
    /** Tokens from which a launch each costs nothing that counts. */
    private static final long FEW = 64;

    private record Held(Op op, Tensor[] in, Tensor[] out) {}

    private final Launcher launcher;
    private final Dispatch apart;
    private final List<Held> held = new ArrayList<>(4);

    Appending(Launcher launcher, Dispatch apart) {
        this.launcher = launcher;
        this.apart = apart;
    }

    /** Whether an operation is taken; what waits is launched if it is not the one that was expected. */
    boolean takes(Op op, Tensor[] in, Tensor[] out) {
        Held next = new Held(op, in, out);
        if (!held.isEmpty() && !follows(next)) {
            flush();
        }
        if (held.isEmpty() && !begins(next)) {
            return false;
        }
        held.add(next);
        if (held.size() == 4) {
            launch();
        }
        return true;
    }

    /** Launches what waits, each by itself. */
    void flush() {
        List<Held> all = List.copyOf(held);
        held.clear();
        all.forEach(each -> apart.launch(each.op, each.in, each.out));
    }

    private static boolean begins(Held next) {
        return next.op instanceof Fused.Rope rope && !rope.inverse() && next.in[0].dim(0) <= FEW;
    }

    private boolean follows(Held next) {
        Held queries = held.getFirst();
        Tensor x = next.in[0];
        if (held.size() == 1) {
            return next.op.equals(queries.op)
                    && same(next.in[1], queries.in[1])
                    && same(next.in[2], queries.in[2])
                    && x.dtype() == queries.in[0].dtype()
                    && x.dim(2) == queries.in[0].dim(2)
                    && !overlap(queries.out[0], x)
                    && !overlap(next.out[0], queries.in[0]);
        }
        Held keys = held.get(1);
        if (!(next.op instanceof Plain.Store) || next.in[0].dtype().isQuantized()) {
            return false;
        }
        if (held.size() == 2) {
            return same(next.in[2], keys.out[0]);
        }
        Tensor[] first = held.get(2).in;
        Tensor values = next.in[2];
        return same(next.in[1], first[1])
                && x.dtype() == first[0].dtype()
                && x.dim(0) == first[0].dim(0)
                && values.dtype() == keys.in[0].dtype()
                && Call.size(values) == Call.size(keys.in[0])
                && !overlap(queries.out[0], values)
                && !overlap(keys.out[0], values);
    }

    private void launch() {
        List<Held> all = List.copyOf(held);
        held.clear();
        Held queries = all.getFirst();
        Held keys = all.get(1);
        Tensor[] keyStore = all.get(2).in;
        Tensor[] valueStore = all.get(3).in;
        long heads = queries.in[0].dim(1);
        long kvHeads = keys.in[0].dim(1);
        long d = queries.in[0].dim(2);
        long half = Call.size(queries.in[2]);
        long tokens = queries.in[0].dim(0);
        new Call(launcher, Kernel.ROPE_STORE)
                .tensors(queries.in[0], keys.in[0], valueStore[2])
                .tensors(queries.in[1], queries.in[2], keyStore[1])
                .tensors(queries.out[0], keys.out[0], keyStore[0], valueStore[0])
                .i32(tokens)
                .i32(heads)
                .i32(kvHeads)
                .i32(d)
                .i32(half)
                .f32(((Fused.Rope) queries.op).magnitude())
                .i64(keyStore[0].dim(0))
                .groups(Call.groups((heads + kvHeads) * (d - half) + kvHeads * d, Launch.GROUP), tokens, 1);
    }

    /** Whether two tensors are the same bytes. */
    private static boolean same(Tensor a, Tensor b) {
        return a.memory().equals(b.memory())
                && a.offset() == b.offset()
                && a.bytes() == b.bytes()
                && a.dtype() == b.dtype();
    }

    private static boolean overlap(Tensor a, Tensor b) {
        return a.memory().equals(b.memory())
                && a.offset() < b.offset() + b.bytes()
                && b.offset() < a.offset() + a.bytes();
    }
}
