package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fused;
import java.util.Arrays;
import java.util.List;

/**
 * Launches of attention on tensor cores: tiles of queries where a sequence has many (flash.kernel), keys split over groups
 * where it has few (decode.kernel). Both take one 16-bit type and heads of 128.
 */
final class Flash {
    /** As flash.kernel and decode.kernel have them. */
    static final int HEAD = 128;

    static final int TILE = 128;
    static final int RUN = 16;

    /** Queries for each sequence from which tiles pay. */
    private static final int QUERIES = 16;

    /** Keys that a group takes at once, and the most groups that share a query. */
    private static final int KEYS = 8 * RUN;

    private static final int MOST_SPLITS = 32;

    private final Launcher launcher;

    Flash(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Whether (q, k, v, ...) are of types and shapes that these kernels take. */
    boolean takes(Tensor... in) {
        return takes(Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new))
                && List.of(in[0], in[1], in[2]).stream().allMatch(Call::aligned);
    }

    private static boolean takes(Spec... in) {
        DType type = in[0].dtype();
        long heads = in[0].shape().dim(1);
        long kvHeads = in[1].shape().dim(1);
        return type != DType.F32
                && in[1].dtype() == type
                && in[2].dtype() == type
                && in[0].shape().dim(2) == HEAD
                && (isTiled(in) || heads / kvHeads <= RUN);
    }

    private static boolean isTiled(Spec... in) {
        return in[0].shape().dim(0) >= QUERIES * in[5].shape().dim(0);
    }

    /** Scratch memory of an operation: what groups that share a query found, of as many as there are at most. */
    static long workspace(Spec... in) {
        return takes(in) && !isTiled(in)
                ? in[0].shape().dim(0) * in[0].shape().dim(1) * MOST_SPLITS * (HEAD + 2) * Float.BYTES
                : 0;
    }

    /** (q, k, v, starts, positions, tables) -> y, lse. */
    void run(Fused.Attention op, Tensor[] in, Tensor[] out) {
        long tokens = in[0].dim(0);
        long sequences = in[5].dim(0);
        if (isTiled(Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new))) {
            Call call = new Call(launcher, Kernel.FLASH_ATTENTION)
                    .tensors(in)
                    .tensors(out)
                    .i32(tokens);
            rest(call, op, in).groups(tokens / TILE + sequences + 1, in[0].dim(1), 1);
            return;
        }
        long kvHeads = in[1].dim(1);
        long most = Call.groups(2L * launcher.multiprocessors(), tokens * kvHeads);
        long splits = Math.clamp(Call.groups(in[5].dim(1) * op.block(), KEYS), 1, Math.min(most, MOST_SPLITS));
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor parts = scratch.allocate(Spec.f32(tokens, in[0].dim(1), splits, HEAD));
        Tensor stats = scratch.allocate(Spec.f32(tokens, in[0].dim(1), splits, 2));
        Call call = new Call(launcher, Kernel.DECODE_ATTENTION).tensors(in).tensors(parts, stats);
        rest(call, op, in).groups(tokens, kvHeads, splits);
        new Call(launcher, Kernel.COMBINE_ATTENTION)
                .tensors(parts, stats)
                .tensors(out)
                .i32(splits)
                .groups(tokens * in[0].dim(1));
        scratch.release();
    }

    private static Call rest(Call call, Fused.Attention op, Tensor... in) {
        return call.i32(in[0].dim(1))
                .i32(in[1].dim(1))
                .i32(in[5].dim(0))
                .i32(in[5].dim(1))
                .i32(op.block())
                .i32(op.window())
                .f32(op.scale());
    }
}
