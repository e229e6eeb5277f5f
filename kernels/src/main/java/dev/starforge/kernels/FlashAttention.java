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
import java.util.Set;

/**
 * Launches of FlashAttention on tensor cores: tiles of queries for prefill (flash_attention.kernel), keys split over groups for
 * decoding (decode_attention.kernel), and the gradient (flash_attention_grad.kernel). All need one 16-bit type; head sizes are
 * multiples of 16 (of 32 above 128) for tiles and gradient, and 128 for decoding. They are {@link Sibling#MMA}. With {@link Sibling#WGMMA}, head sizes 64 and 128 have the kernels
 * of flash_attention_sm90.kernel and flash_attention_grad_sm90.kernel, with the same parameters and groups. A single sequence
 * decodes with AppendAttention, which also rotates and stores q, k and v (see {@link RopeStoreFusion}). Everything else runs
 * attention.kernel, without tensor cores.
 */
final class FlashAttention {
    /** The head size of decode_attention.kernel. */
    static final int DECODE_D_HEAD = 128;

    /** Query heads per key head that decode_attention.kernel computes in one mma tile. */
    static final int DECODE_MAX_QUERY_HEADS = 16;

    static final int QUERIES_PER_GROUP = 128;

    /** Keys of a step of a simdgroup in decode_attention.kernel. */
    static final int KEYS_PER_STEP = 16;

    /** Queries per sequence, averaged over the batch, from which tiles are faster than split keys. */
    private static final int TILED_MIN_MEAN_QUERIES = 16;

    /** Keys that a group processes at once, one step per simdgroup. */
    private static final int KEYS_PER_GROUP_STEP = 8 * KEYS_PER_STEP;

    private static final int MAX_SPLITS = 32;

    /** The cluster size that every device with clusters supports. */
    private static final int MAX_CLUSTER_SIZE = 8;

    /** Groups of the dK and dV pass from which a device is full, so that query heads need not be split further. */
    private static final long GROUPS_TO_FILL_DEVICE = 384;

    /**
     * The largest head size whose fragments and accumulators fit into registers. For larger heads, the forward pass reloads operand A,
     * and the dK and dV pass computes half of the accumulators at a time.
     */
    private static final int MAX_D_HEAD_IN_REGISTERS = 128;

    private final Launcher launcher;

    FlashAttention(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Returns true if these kernels support the types and shapes of (q, k, v, ...). */
    boolean supports(Tensor... in) {
        return launcher.siblings().contains(Sibling.MMA)
                && supports(specs(in))
                && List.of(in[0], in[1], in[2]).stream().allMatch(KernelCall::aligned);
    }

    private static boolean supports(Spec... in) {
        DType type = in[0].dtype();
        long heads = in[0].shape().dim(1);
        long kvHeads = in[1].shape().dim(1);
        return type != DType.F32
                && in[1].dtype() == type
                && in[2].dtype() == type
                && (usesQueryTiles(in)
                        ? isSupportedHead(in[0].shape().dim(2))
                        : in[0].shape().dim(2) == DECODE_D_HEAD && heads / kvHeads <= DECODE_MAX_QUERY_HEADS);
    }

    /** Multiples of 16 or, above {@link #MAX_D_HEAD_IN_REGISTERS}, of 32. */
    private static boolean isSupportedHead(long d) {
        return d <= Dispatch.MAX_HEAD && d % (d <= MAX_D_HEAD_IN_REGISTERS ? 16 : 32) == 0;
    }

    private static boolean usesQueryTiles(Spec... in) {
        return in[0].shape().dim(0)
                >= TILED_MIN_MEAN_QUERIES
                        * AttentionInputs.of(in).tables().shape().dim(0);
    }

    /** Returns true if the wgmma kernels support these heads on this device. */
    private boolean usesWarpgroups(Tensor... in) {
        return launcher.siblings().contains(Sibling.WGMMA) && (in[0].dim(2) == 64 || in[0].dim(2) == 128);
    }

    /** Scratch memory for the partial results of split keys, at most. */
    static long workspace(Set<Sibling> siblings, Spec... in) {
        return siblings.contains(Sibling.MMA) && supports(in) && !usesQueryTiles(in)
                ? in[0].shape().dim(0) * in[0].shape().dim(1) * MAX_SPLITS * (DECODE_D_HEAD + 2) * Float.BYTES
                : 0;
    }

    /** (q, k, v, starts, positions, tables) -> y, lse. */
    void run(Fused.Attention op, Tensor[] in, Tensor[] out) {
        long tokens = in[0].dim(0);
        long sequences = AttentionInputs.of(in).tables().dim(0);
        if (usesQueryTiles(specs(in))) {
            Kernel kernel = usesWarpgroups(in) && op.scale() > 0 ? Kernel.FLASH_ATTENTION_SM90 : Kernel.FLASH_ATTENTION;
            KernelCall call = new KernelCall(launcher, kernel)
                    .define("D_HEAD", in[0].dim(2))
                    .tensors(in)
                    .tensors(out)
                    .i32(tokens);
            shapeArguments(call, op, in).groups(in[0].dim(1), tokens / QUERIES_PER_GROUP + sequences + 1, 1);
            return;
        }
        Scope scratch = launcher.scratch();
        scratch.mark();
        Split split = split(op, in);
        KernelCall call = split.call(launcher, Kernel.DECODE_ATTENTION)
                .tensors(in)
                .tensors(split.partials, split.stats)
                .tensors(out);
        shapeArguments(call, op, in).groups(tokens, in[1].dim(1), split.partials.dim(2));
        combine(split, out);
        scratch.release();
    }

    /**
     * Partial results of groups that split the keys of a query.
     *
     * @param partials accumulators [T, H, splits, D]
     * @param stats row max and row sum [T, H, splits, 2]
     * @param clustered whether the groups are a cluster that combines them itself, so that neither is written
     */
    private record Split(Tensor partials, Tensor stats, boolean clustered) {
        KernelCall call(Launcher launcher, Kernel kernel) {
            KernelCall call = new KernelCall(launcher, kernel);
            return clustered ? call.define("CLUSTER_SIZE", partials.dim(2)) : call;
        }
    }

    private Split split(Fused.Attention op, Tensor... in) {
        long tokens = in[0].dim(0);
        long heads = in[0].dim(1);
        long groupsAvailable =
                Math.max(1, launcher.multiprocessors() / (tokens * in[1].dim(1))); // one group per multiprocessor
        long wanted = Math.clamp(
                KernelCall.groups(AttentionInputs.of(in).tables().dim(1) * op.block(), KEYS_PER_GROUP_STEP),
                1,
                Math.min(groupsAvailable, MAX_SPLITS));
        boolean clustered = launcher.supportsClusters() && wanted < MAX_SPLITS;
        long splits = clustered ? Math.min(MAX_CLUSTER_SIZE, Long.highestOneBit(groupsAvailable)) : wanted;
        Scope scratch = launcher.scratch();
        return new Split(
                scratch.allocate(Spec.f32(tokens, heads, splits, DECODE_D_HEAD)),
                scratch.allocate(Spec.f32(tokens, heads, splits, 2)),
                clustered);
    }

    private void combine(Split split, Tensor... out) {
        if (split.clustered) {
            return;
        }
        new KernelCall(launcher, Kernel.COMBINE_ATTENTION)
                .tensors(split.partials, split.stats)
                .tensors(out)
                .i32(split.partials.dim(2))
                .groups(split.partials.dim(0) * split.partials.dim(1));
    }

    /** Returns true if attention supports a single query, and can begin with its rotation. */
    boolean supportsAppend(Tensor... in) {
        return in[0].dim(0) == 1
                && AttentionInputs.of(in).tables().dim(0) == 1
                && supports(in)
                && !usesQueryTiles(specs(in));
    }

    /** Launches rope, KV store and attention of a single token, as matched by {@link RopeStoreFusion}. */
    void append(List<FusionPatterns.PendingOp> ops) {
        FusionPatterns.PendingOp queries = ops.getFirst();
        FusionPatterns.PendingOp keys = ops.get(1);
        Tensor[] keyStore = ops.get(2).in();
        Tensor[] valueStore = ops.get(3).in();
        FusionPatterns.PendingOp last = ops.getLast();
        Fused.Attention op = (Fused.Attention) last.op();
        AttentionInputs<Tensor> attention = AttentionInputs.of(last.in());
        Scope scratch = launcher.scratch();
        scratch.mark();
        Split split = split(op, last.in());
        split.call(launcher, Kernel.APPEND_ATTENTION)
                .tensors(queries.in()[0], keys.in()[0], valueStore[2])
                .tensors(queries.in()[1], queries.in()[2], keyStore[1], attention.starts(), attention.tables())
                .tensors(queries.out()[0], keys.out()[0], keyStore[0], valueStore[0], split.partials, split.stats)
                .tensors(last.out())
                .i32(queries.in()[0].dim(1))
                .i32(keys.in()[0].dim(1))
                .i32(op.block())
                .i32(op.window())
                .f32(op.scale())
                .f32(((Fused.Rope) queries.op()).magnitude())
                .i64(keyStore[0].dim(0))
                .groups(1, keys.in()[0].dim(1), split.partials.dim(2));
        combine(split, last.out());
        scratch.release();
    }

    /** Returns true if (q, k, v, starts, positions, tables, y, lse, dy) are of types and shapes that the gradient supports. */
    boolean supportsGradient(Tensor... in) {
        return launcher.siblings().contains(Sibling.MMA)
                && supportsGradient(specs(in))
                && values(in).stream().allMatch(KernelCall::aligned);
    }

    private static boolean supportsGradient(Spec... in) {
        DType type = in[0].dtype();
        return type != DType.F32
                && values(in).stream().allMatch(each -> each.dtype() == type)
                && isSupportedHead(in[0].shape().dim(2));
    }

    /** What the gradient reads as vectors: q, k, v, y and dy. */
    private static <T> List<T> values(T[] in) {
        AttentionGradInputs<T> g = AttentionGradInputs.of(in);
        return List.of(g.forward().q(), g.forward().k(), g.forward().v(), g.y(), g.dy());
    }

    /** Returns the number of groups that share the query heads of one KV head, a divisor of their number. */
    private static long splits(int block, Spec... in) {
        long kvHeads = in[1].shape().dim(1);
        long sharing = in[0].shape().dim(1) / kvHeads;
        Spec tables = AttentionGradInputs.of(in).forward().tables();
        long groups = groupsOfKeys(block, tables) * tables.shape().dim(0) * kvHeads;
        long splits = 1;
        while (sharing % splits != 0 || splits < sharing && groups * splits < GROUPS_TO_FILL_DEVICE) {
            splits++;
        }
        return splits;
    }

    private static long groupsOfKeys(int block, Spec tables) {
        return KernelCall.groups(tables.shape().dim(1) * block, QUERIES_PER_GROUP);
    }

    private static Spec partialsSpec(int block, Spec... in) {
        Shape k = in[1].shape();
        return Spec.f32(splits(block, in), 2, k.dim(0), k.dim(1), k.dim(2));
    }

    /** Scratch memory of the gradient: delta, and the partial dK and dV. */
    static long gradientWorkspace(Set<Sibling> siblings, int block, Spec... in) {
        return siblings.contains(Sibling.MMA) && supportsGradient(in)
                ? Float.BYTES
                        * (AttentionGradInputs.of(in).lse().shape().size()
                                + partialsSpec(block, in).shape().size())
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
        boolean warpgroups = usesWarpgroups(in);
        KernelCall queries = new KernelCall(
                        launcher, warpgroups ? Kernel.FLASH_GRAD_QUERY_SM90 : Kernel.FLASH_GRAD_QUERY)
                .define("D_HEAD", d)
                .tensors(in)
                .tensors(gradients.dq(), delta)
                .i32(in[0].dim(0));
        shapeArguments(queries, forward, in)
                .groups(in[0].dim(1), in[0].dim(0) / QUERIES_PER_GROUP + tables.dim(0) + 1, 1);
        Tensor partials = scratch.allocate(partialsSpec(op.block(), specs(in)));
        launcher.zero(partials);
        KernelCall keys = new KernelCall(
                        launcher, warpgroups ? Kernel.FLASH_GRAD_KEY_VALUE_SM90 : Kernel.FLASH_GRAD_KEY_VALUE)
                .define("D_HEAD", d)
                .tensors(Arrays.copyOf(in, 6))
                .tensors(g.lse(), g.dy(), delta, partials)
                .i32(in[1].dim(0));
        shapeArguments(keys, forward, in)
                .i32(partials.dim(0))
                .groups(
                        tables.dim(0) * in[1].dim(1) * partials.dim(0),
                        groupsOfKeys(op.block(), tables.spec()),
                        d <= MAX_D_HEAD_IN_REGISTERS ? 1 : 2);
        new KernelCall(launcher, Kernel.FLASH_GRAD_COMBINE)
                .define("D_HEAD", d)
                .tensors(partials, gradients.dk(), gradients.dv())
                .i64(KernelCall.size(gradients.dk()))
                .i32(partials.dim(0))
                .elements(KernelCall.size(gradients.dk()));
        scratch.release();
    }

    private static Spec[] specs(Tensor... in) {
        return Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new);
    }

    private static KernelCall shapeArguments(KernelCall call, Fused.Attention op, Tensor... in) {
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
