package dev.starforge.kernels;

import dev.starforge.kernels.Neighbours.Held;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Operands.AttentionInputs;
import dev.starforge.tensor.op.Plain;
import java.util.List;

/**
 * Queries and keys are rotated, keys and values stored: four operations that follow each other in every layer, and that for few
 * tokens take the time of being started, four times. The attention over what was stored is the fifth, for a single token.
 */
final class Appending implements Neighbours.Pattern {
    /** Tokens from which a launch each costs nothing that counts. */
    private static final long FEW = 64;

    private final Launcher launcher;
    private final Flash flash;
    private final Dispatch apart;

    Appending(Launcher launcher, Flash flash, Dispatch apart) {
        this.launcher = launcher;
        this.flash = flash;
        this.apart = apart;
    }

    @Override
    public boolean begins(Held first) {
        return first.op() instanceof Fused.Rope rope && !rope.inverse() && first.in()[0].dim(0) <= FEW;
    }

    @Override
    public boolean follows(List<Held> held, Held next) {
        Held queries = held.getFirst();
        Tensor x = next.in()[0];
        if (held.size() == 1) {
            return next.op().equals(queries.op())
                    && Neighbours.same(next.in()[1], queries.in()[1])
                    && Neighbours.same(next.in()[2], queries.in()[2])
                    && x.dtype() == queries.in()[0].dtype()
                    && x.dim(2) == queries.in()[0].dim(2)
                    && !Neighbours.overlap(queries.out()[0], x)
                    && !Neighbours.overlap(next.out()[0], queries.in()[0]);
        }
        Held keys = held.get(1);
        if (held.size() == 4) {
            return attends(held, next);
        }
        if (!(next.op() instanceof Plain.Store) || next.in()[0].dtype().isQuantized()) {
            return false;
        }
        if (held.size() == 2) {
            return Neighbours.same(next.in()[2], keys.out()[0]);
        }
        Tensor[] first = held.get(2).in();
        Tensor values = next.in()[2];
        return Neighbours.same(next.in()[1], first[1])
                && x.dtype() == first[0].dtype()
                && x.dim(0) == first[0].dim(0)
                && values.dtype() == keys.in()[0].dtype()
                && Call.size(values) == Call.size(keys.in()[0])
                && !Neighbours.overlap(queries.out()[0], values)
                && !Neighbours.overlap(keys.out()[0], values);
    }

    /** Whether these are a single query's rotation, its stores, and its attention over them, with all of a head rotated. */
    private boolean attends(List<Held> held, Held next) {
        Held queries = held.getFirst();
        Tensor[] in = next.in();
        Tensor[] keyStore = held.get(2).in();
        Tensor[] valueStore = held.get(3).in();
        return next.op() instanceof Fused.Attention
                && Neighbours.same(in[0], queries.out()[0])
                && Neighbours.same(in[1], keyStore[0])
                && Neighbours.same(in[2], valueStore[0])
                && Neighbours.same(AttentionInputs.of(in).positions(), queries.in()[1])
                && 2 * Call.size(queries.in()[2]) == in[0].dim(2)
                && flash.takesAppended(in)
                && List.of(queries.in()[0], held.get(1).in()[0], held.get(1).out()[0], valueStore[2]).stream()
                        .allMatch(Call::aligned)
                && !Neighbours.overlap(queries.out()[0], queries.in()[0])
                && !Neighbours.overlap(held.get(1).out()[0], held.get(1).in()[0]);
    }

    /** A single token may still be followed by its attention. */
    @Override
    public boolean isWhole(List<Held> held) {
        return held.size() == 5 || held.size() == 4 && held.getFirst().in()[0].dim(0) > 1;
    }

    @Override
    public void launch(List<Held> held) {
        switch (held.size()) {
            case 5 -> flash.append(held);
            case 4 -> store(held);
            default -> held.forEach(each -> apart.launch(each.op(), each.in(), each.out()));
        }
    }

    private void store(List<Held> held) {
        Held queries = held.getFirst();
        Held keys = held.get(1);
        Tensor[] keyStore = held.get(2).in();
        Tensor[] valueStore = held.get(3).in();
        long heads = queries.in()[0].dim(1);
        long kvHeads = keys.in()[0].dim(1);
        long d = queries.in()[0].dim(2);
        long half = Call.size(queries.in()[2]);
        long tokens = queries.in()[0].dim(0);
        new Call(launcher, Kernel.ROPE_STORE)
                .tensors(queries.in()[0], keys.in()[0], valueStore[2])
                .tensors(queries.in()[1], queries.in()[2], keyStore[1])
                .tensors(queries.out()[0], keys.out()[0], keyStore[0], valueStore[0])
                .i32(tokens)
                .i32(heads)
                .i32(kvHeads)
                .i32(d)
                .i32(half)
                .f32(((Fused.Rope) queries.op()).magnitude())
                .i64(keyStore[0].dim(0))
                .groups(Call.groups((heads + kvHeads) * (d - half) + kvHeads * d, Launch.GROUP), tokens, 1);
    }
}
