package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Operands.AttentionGradInputs;
import dev.starforge.tensor.op.Operands.AttentionGradOutputs;
import dev.starforge.tensor.op.Operands.AttentionInputs;
import java.util.Arrays;
import java.util.List;

/**
 * Launches of attention on tensor cores: tiles of queries where a sequence has many (flash.kernel), keys split over groups
 * where it has few (decode.kernel), and the gradient (flashgrad.kernel). All take one 16-bit type; tiles and gradient take heads
 * of whole sixteens, decode.kernel those of 128. Where there are warpgroups, heads of 64 and 128 have kernels of their own
 * (flash90.kernel, flashgrad90.kernel), with the same parameters and groups.
 */
final class Flash {
    /** As the kernels have them. */
    static final int HEAD = 128;

    static final int TILE = 128;
    static final int RUN = 16;

    /** Queries for each sequence from which tiles pay. */
    private static final int QUERIES = 16;

    /** Keys that a group takes at once, and the most groups that share a query. */
    private static final int KEYS = 8 * RUN;

    private static final int MOST_SPLITS = 32;

    /** Groups of a cluster at most: what every chip that has clusters takes. */
    private static final int CLUSTER = 8;

    /** Groups of the gradient of keys and values from which a chip is full, so that heads need not be dealt to more. */
    private static final long GROUPS = 384;

    /** Heads whose rows and sums the registers of a group hold; of larger ones, half of the sums. */
    private static final int KEPT_HEAD = 128;

    private final Launcher launcher;

    Flash(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Whether (q, k, v, ...) are of types and shapes that these kernels take. */
    boolean takes(Tensor... in) {
        return takes(specs(in)) && List.of(in[0], in[1], in[2]).stream().allMatch(Call::aligned);
    }

    private static boolean takes(Spec... in) {
        DType type = in[0].dtype();
        long heads = in[0].shape().dim(1);
        long kvHeads = in[1].shape().dim(1);
        return type != DType.F32
                && in[1].dtype() == type
                && in[2].dtype() == type
                && (isTiled(in)
                        ? isWhole(in[0].shape().dim(2))
                        : in[0].shape().dim(2) == HEAD && heads / kvHeads <= RUN);
    }

    /** Whether a head is whole sixteens, or whole pairs of them where registers do not hold its rows. */
    private static boolean isWhole(long d) {
        return d <= Dispatch.MAX_HEAD && d % (d <= KEPT_HEAD ? 16 : 32) == 0;
    }

    private static boolean isTiled(Spec... in) {
        return in[0].shape().dim(0)
                >= QUERIES * AttentionInputs.of(in).tables().shape().dim(0);
    }

    /** Whether warpgroups take tiles of these heads. */
    private boolean isWide(Tensor... in) {
        return launcher.warpgroups() && (in[0].dim(2) == HEAD || in[0].dim(2) == HEAD / 2);
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
        long sequences = AttentionInputs.of(in).tables().dim(0);
        if (isTiled(specs(in))) {
            Kernel kernel = isWide(in) && op.scale() > 0 ? Kernel.FLASH_ATTENTION_90 : Kernel.FLASH_ATTENTION;
            Call call = new Call(launcher, kernel)
                    .define("D_HEAD", in[0].dim(2))
                    .tensors(in)
                    .tensors(out)
                    .i32(tokens);
            rest(call, op, in).groups(in[0].dim(1), tokens / TILE + sequences + 1, 1);
            return;
        }
        Scope scratch = launcher.scratch();
        scratch.mark();
        Split split = split(op, in);
        Call call = split.call(launcher, Kernel.DECODE_ATTENTION)
                .tensors(in)
                .tensors(split.parts, split.stats)
                .tensors(out);
        rest(call, op, in).groups(tokens, in[1].dim(1), split.parts.dim(2));
        combine(split, out);
        scratch.release();
    }

    /**
     * What groups that share a query found.
     *
     * @param parts sums of values, [N, H, splits, D]
     * @param stats the largest score and the sum of weights, [N, H, splits, 2]
     * @param clustered whether these groups merge it themselves, and write neither
     */
    private record Split(Tensor parts, Tensor stats, boolean clustered) {
        Call call(Launcher launcher, Kernel kernel) {
            Call call = new Call(launcher, kernel);
            return clustered ? call.define("CLUSTER", parts.dim(2)) : call;
        }
    }

    private Split split(Fused.Attention op, Tensor... in) {
        long tokens = in[0].dim(0);
        long heads = in[0].dim(1);
        long most = Math.max(1, launcher.multiprocessors() / (tokens * in[1].dim(1))); // of which each has room for one
        long wanted = Math.clamp(
                Call.groups(AttentionInputs.of(in).tables().dim(1) * op.block(), KEYS), 1, Math.min(most, MOST_SPLITS));
        boolean clustered = launcher.clusters() && wanted < MOST_SPLITS;
        long splits = clustered ? Math.min(CLUSTER, Long.highestOneBit(most)) : wanted;
        Scope scratch = launcher.scratch();
        return new Split(
                scratch.allocate(Spec.f32(tokens, heads, splits, HEAD)),
                scratch.allocate(Spec.f32(tokens, heads, splits, 2)),
                clustered);
    }

    private void combine(Split split, Tensor... out) {
        if (split.clustered) {
            return;
        }
        new Call(launcher, Kernel.COMBINE_ATTENTION)
                .tensors(split.parts, split.stats)
                .tensors(out)
                .i32(split.parts.dim(2))
                .groups(split.parts.dim(0) * split.parts.dim(1));
    }

    /** Whether attention takes a single query, and can begin with its rotation. */
    boolean takesAppended(Tensor... in) {
        return in[0].dim(0) == 1 && AttentionInputs.of(in).tables().dim(0) == 1 && takes(in) && !isTiled(specs(in));
    }

    /** Rope of q and of k, Store of k and of v, and attention, as {@link Appending} has them. */
    void append(List<Neighbours.Held> held) {
        Neighbours.Held queries = held.getFirst();
        Neighbours.Held keys = held.get(1);
        Tensor[] keyStore = held.get(2).in();
        Tensor[] valueStore = held.get(3).in();
        Neighbours.Held last = held.getLast();
        Fused.Attention op = (Fused.Attention) last.op();
        AttentionInputs<Tensor> attention = AttentionInputs.of(last.in());
        Scope scratch = launcher.scratch();
        scratch.mark();
        Split split = split(op, last.in());
        split.call(launcher, Kernel.APPEND_ATTENTION)
                .tensors(queries.in()[0], keys.in()[0], valueStore[2])
                .tensors(queries.in()[1], queries.in()[2], keyStore[1], attention.starts(), attention.tables())
                .tensors(queries.out()[0], keys.out()[0], keyStore[0], valueStore[0], split.parts, split.stats)
                .tensors(last.out())
                .i32(queries.in()[0].dim(1))
                .i32(keys.in()[0].dim(1))
                .i32(op.block())
                .i32(op.window())
                .f32(op.scale())
                .f32(((Fused.Rope) queries.op()).magnitude())
                .i64(keyStore[0].dim(0))
                .groups(1, keys.in()[0].dim(1), split.parts.dim(2));
        combine(split, last.out());
        scratch.release();
    }

    /** Whether (q, k, v, starts, positions, tables, y, lse, dy) are of types and shapes that the gradient takes. */
    boolean takesGradient(Tensor... in) {
        return takesGradient(specs(in)) && values(in).stream().allMatch(Call::aligned);
    }

    private static boolean takesGradient(Spec... in) {
        DType type = in[0].dtype();
        return type != DType.F32
                && values(in).stream().allMatch(each -> each.dtype() == type)
                && isWhole(in[0].shape().dim(2));
    }

    /** What the gradient reads as vectors: q, k, v, y and dy. */
    private static <T> List<T> values(T[] in) {
        AttentionGradInputs<T> g = AttentionGradInputs.of(in);
        return List.of(g.forward().q(), g.forward().k(), g.forward().v(), g.y(), g.dy());
    }

    /** Among how many groups the heads that share a key are dealt: a divisor of their number. */
    private static long splits(int block, Spec... in) {
        long kvHeads = in[1].shape().dim(1);
        long sharing = in[0].shape().dim(1) / kvHeads;
        Spec tables = AttentionGradInputs.of(in).forward().tables();
        long groups = keyGroups(block, tables) * tables.shape().dim(0) * kvHeads;
        long splits = 1;
        while (sharing % splits != 0 || splits < sharing && groups * splits < GROUPS) {
            splits++;
        }
        return splits;
    }

    private static long keyGroups(int block, Spec tables) {
        return Call.groups(tables.shape().dim(1) * block, TILE);
    }

    private static Spec parts(int block, Spec... in) {
        Shape k = in[1].shape();
        return Spec.f32(splits(block, in), 2, k.dim(0), k.dim(1), k.dim(2));
    }

    /** Scratch memory of the gradient: a number for each query and head, and what groups that share a key found. */
    static long gradientWorkspace(int block, Spec... in) {
        return takesGradient(in)
                ? Float.BYTES
                        * (AttentionGradInputs.of(in).lse().shape().size()
                                + parts(block, in).shape().size())
                : 0;
    }

    /** (q, k, v, starts, positions, tables, y, lse, dy) -> dq, dk, dv. */
    void runGradient(Fused.AttentionGrad op, Tensor[] in, Tensor[] out) {
        Fused.Attention forward = new Fused.Attention(op.scale(), op.window(), op.block());
        AttentionGradInputs<Tensor> g = AttentionGradInputs.of(in);
        AttentionGradOutputs<Tensor> gradients = AttentionGradOutputs.of(out);
        Tensor tables = g.forward().tables();
        long d = in[0].dim(2);
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor delta = scratch.allocate(g.lse().spec());
        boolean wide = isWide(in);
        Call queries = new Call(launcher, wide ? Kernel.FLASH_GRAD_QUERY_90 : Kernel.FLASH_GRAD_QUERY)
                .define("D_HEAD", d)
                .tensors(in)
                .tensors(gradients.dq(), delta)
                .i32(in[0].dim(0));
        rest(queries, forward, in).groups(in[0].dim(1), in[0].dim(0) / TILE + tables.dim(0) + 1, 1);
        Tensor parts = scratch.allocate(parts(op.block(), specs(in)));
        launcher.zero(parts);
        Call keys = new Call(launcher, wide ? Kernel.FLASH_GRAD_KEY_VALUE_90 : Kernel.FLASH_GRAD_KEY_VALUE)
                .define("D_HEAD", d)
                .tensors(Arrays.copyOf(in, 6))
                .tensors(g.lse(), g.dy(), delta, parts)
                .i32(in[1].dim(0));
        rest(keys, forward, in)
                .i32(parts.dim(0))
                .groups(
                        tables.dim(0) * in[1].dim(1) * parts.dim(0),
                        keyGroups(op.block(), tables.spec()),
                        d <= KEPT_HEAD ? 1 : 2);
        new Call(launcher, Kernel.FLASH_GRAD_COMBINE)
                .define("D_HEAD", d)
                .tensors(parts, gradients.dk(), gradients.dv())
                .i64(Call.size(gradients.dk()))
                .i32(parts.dim(0))
                .elements(Call.size(gradients.dk()));
        scratch.release();
    }

    private static Spec[] specs(Tensor... in) {
        return Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new);
    }

    private static Call rest(Call call, Fused.Attention op, Tensor... in) {
        Tensor tables = AttentionInputs.of(in).tables();
        return call.i32(in[0].dim(1))
                .i32(in[1].dim(1))
                .i32(tables.dim(0))
                .i32(tables.dim(1))
                .i32(op.block())
                .i32(op.window())
                .f32(op.scale());
    }
}
