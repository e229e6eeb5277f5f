package dev.starforge.kernels;

import dev.starforge.kernels.FusionPatterns.PendingOp;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Operands.AttentionInputs;
import dev.starforge.tensor.op.Plain;
import java.util.List;

/**
 * Fuses rope of queries and keys with the KV store: four operations in every layer whose launches take most of their time for few tokens.
 * For a single token, attention is the fifth.
 */
final class RopeStoreFusion implements FusionPatterns.Pattern {
    /** Above this number of tokens the launches are negligible. */
    private static final long MAX_TOKENS = 64;

    private final Launcher launcher;
    private final FlashAttention flash;
    private final Dispatch dispatch;

    RopeStoreFusion(Launcher launcher, FlashAttention flash, Dispatch dispatch) {
        this.launcher = launcher;
        this.flash = flash;
        this.dispatch = dispatch;
    }

    @Override
    public boolean startsWith(PendingOp first) {
        return first.op() instanceof Fused.Rope rope && !rope.inverse() && first.in()[0].dim(0) <= MAX_TOKENS;
    }

    @Override
    public boolean continuesWith(List<PendingOp> ops, PendingOp next) {
        PendingOp queries = ops.getFirst();
        Tensor x = next.in()[0];
        if (ops.size() == 1) {
            return next.op().equals(queries.op())
                    && FusionPatterns.isSameTensor(next.in()[1], queries.in()[1])
                    && FusionPatterns.isSameTensor(next.in()[2], queries.in()[2])
                    && x.dtype() == queries.in()[0].dtype()
                    && x.dim(2) == queries.in()[0].dim(2)
                    && !FusionPatterns.overlaps(queries.out()[0], x)
                    && !FusionPatterns.overlaps(next.out()[0], queries.in()[0]);
        }
        PendingOp keys = ops.get(1);
        if (ops.size() == 4) {
            return isAttentionOver(ops, next);
        }
        if (!(next.op() instanceof Plain.Store) || next.in()[0].dtype().isQuantized()) {
            return false;
        }
        if (ops.size() == 2) {
            return FusionPatterns.isSameTensor(next.in()[2], keys.out()[0]);
        }
        Tensor[] first = ops.get(2).in();
        Tensor values = next.in()[2];
        return FusionPatterns.isSameTensor(next.in()[1], first[1])
                && x.dtype() == first[0].dtype()
                && x.dim(0) == first[0].dim(0)
                && values.dtype() == keys.in()[0].dtype()
                && KernelCall.size(values) == KernelCall.size(keys.in()[0])
                && !FusionPatterns.overlaps(queries.out()[0], values)
                && !FusionPatterns.overlaps(keys.out()[0], values);
    }

    /** Returns true if {@code next} is the attention of the rotated query over the stored keys and values, with rope over whole heads. */
    private boolean isAttentionOver(List<PendingOp> ops, PendingOp next) {
        PendingOp queries = ops.getFirst();
        Tensor[] in = next.in();
        Tensor[] keyStore = ops.get(2).in();
        Tensor[] valueStore = ops.get(3).in();
        return next.op() instanceof Fused.Attention
                && FusionPatterns.isSameTensor(in[0], queries.out()[0])
                && FusionPatterns.isSameTensor(in[1], keyStore[0])
                && FusionPatterns.isSameTensor(in[2], valueStore[0])
                && FusionPatterns.isSameTensor(AttentionInputs.of(in).positions(), queries.in()[1])
                && 2 * KernelCall.size(queries.in()[2]) == in[0].dim(2)
                && flash.supportsAppend(in)
                && List.of(queries.in()[0], ops.get(1).in()[0], ops.get(1).out()[0], valueStore[2]).stream()
                        .allMatch(KernelCall::aligned)
                && !FusionPatterns.overlaps(queries.out()[0], queries.in()[0])
                && !FusionPatterns.overlaps(ops.get(1).out()[0], ops.get(1).in()[0]);
    }

    /** A single token may still be followed by its attention. */
    @Override
    public boolean isComplete(List<PendingOp> ops) {
        return ops.size() == 5 || ops.size() == 4 && ops.getFirst().in()[0].dim(0) > 1;
    }

    @Override
    public void launch(List<PendingOp> ops) {
        switch (ops.size()) {
            case 5 -> flash.append(ops);
            case 4 -> store(ops);
            default -> ops.forEach(each -> dispatch.launch(each.op(), each.in(), each.out()));
        }
    }

    private void store(List<PendingOp> ops) {
        PendingOp queries = ops.getFirst();
        PendingOp keys = ops.get(1);
        Tensor[] keyStore = ops.get(2).in();
        Tensor[] valueStore = ops.get(3).in();
        long heads = queries.in()[0].dim(1);
        long kvHeads = keys.in()[0].dim(1);
        long d = queries.in()[0].dim(2);
        long half = KernelCall.size(queries.in()[2]);
        long tokens = queries.in()[0].dim(0);
        new KernelCall(launcher, Kernel.ROPE_STORE)
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
                .groups(KernelCall.groups((heads + kvHeads) * (d - half) + kvHeads * d, Launch.GROUP), tokens, 1);
    }
}
