package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Layers;

/**
 * Launches of small_batch_gemm.kernel: linear layers of more than eight rows that still read their weights once. The split of K depends on
 * the matrix and the device, and on which of three sizes the batch fits.
 */
final class SmallBatchGemm {
    /** Rows of x up to which {@link Gemv} is used. */
    static final int GEMV_MAX_ROWS = 8;

    /**
     * The largest number of rows for 16-bit weights. The vendor library multiplies them faster, but the epilogue and the split-K reduction
     * are separate launches.
     */
    static final int MAX_DENSE_ROWS = 32;

    /** Groups that split K: the cluster size that every device with clusters supports. */
    private static final int MAX_SPLITS = 8;

    /** The least number of fragments of K per split. */
    private static final int MIN_FRAGMENTS_PER_SPLIT = 2;

    /** The most columns over all splits, if there are more than two splits: those of the groups that large devices hold at once. */
    private static final long MAX_SPLIT_COLUMNS = 1 << 17;

    private static final int SIMDGROUPS = Launch.GROUP / 32;

    private final Launcher launcher;

    SmallBatchGemm(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Returns true for inputs of {@link Gemv#supports} with 16-bit rows that need no split, and weights with scales in their units. */
    static boolean supports(Tensor[] in, int from, int to) {
        DType w = in[1 + from].dtype();
        return in[0].dtype() != DType.F32
                && in[0].dim(0) > GEMV_MAX_ROWS
                && (w == in[0].dtype() || w.isQuantized() && w != DType.NF4_DOUBLE)
                && KernelCall.aligned(in[0])
                && Gemv.aligned(in, from, to);
    }

    /** Scratch memory of split-K without clusters, at most. */
    static long workspace(Spec x, long columns) {
        boolean split = x.dtype() != DType.F32 && x.shape().dim(0) > GEMV_MAX_ROWS;
        long whole = KernelCall.groups(columns, WeightTiles.ROWS) * WeightTiles.ROWS;
        long all = Math.max(2 * whole, Math.min(MAX_SPLITS * whole, MAX_SPLIT_COLUMNS));
        return split ? x.shape().dim(0) * all * Float.BYTES : 0;
    }

    void run(Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to) {
        Tensor x = in[0];
        DType w = in[1 + from].dtype();
        long tiles = Gemv.tiles(out, from, to, WeightTiles.ROWS);
        Plan plan = plan(w, x.dim(0), x.dim(1) / WeightTiles.FRAGMENT_COLUMNS, tiles);
        boolean clustered = launcher.supportsClusters() && plan.splits > 1;
        boolean reduceApart = plan.splits > 1 && !clustered;
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor partials = scratch.allocate(Spec.f32(reduceApart ? plan.splits : 0, x.dim(0), tiles * WeightTiles.ROWS));
        KernelCall call = new KernelCall(launcher, Kernel.SMALL_BATCH_GEMM)
                .define("FN", Dispatch.code(op.fn()))
                .define("FORMAT", w.isQuantized() ? w.name() : "DENSE")
                .define("MMA_TYPE", Variant.typeName(x.dtype()))
                .define("N_TILES", plan.nTiles)
                .define("MIN_GROUPS_PER_SM", plan.groupsPerSm)
                .define("W_TILES", plan.wTiles);
        if (clustered) {
            call.define("CLUSTER_SIZE", plan.splits);
        }
        Gemv.addArguments(call.tensors(x), op, in, out, from, to, WeightTiles.ROWS);
        call.tensors(partials).groups(plan.groups, 1, plan.splits);
        if (reduceApart) {
            KernelCall sum = new KernelCall(launcher, Kernel.REDUCE_SPLITS)
                    .define("FN", Dispatch.code(op.fn()))
                    .tensors(partials);
            Gemv.addEpilogue(sum, op, in, out, from, to);
            sum.i32(plan.splits).groups(KernelCall.groups(partials.dim(2), Launch.GROUP), partials.dim(1), 1);
        }
        scratch.release();
    }

    /**
     * The compile-time parameters of a launch, and its grid.
     *
     * @param nTiles tiles of eight rows of x
     * @param wTiles weight tiles per simdgroup
     * @param groupsPerSm resident groups per multiprocessor
     * @param groups for all weight tiles
     * @param splits of K
     */
    private record Plan(int nTiles, int wTiles, int groupsPerSm, long groups, int splits) {}

    /**
     * Tuned on Hopper: one wave of groups, two per multiprocessor, so that one computes while the other waits, as far as K can be split.
     * Matrices with enough tiles have two per simdgroup, which share the loads of x. 6-bit scales with 64 rows need the registers of two
     * groups, so one is resident.
     */
    private Plan plan(DType w, long rows, long fragments, long tiles) {
        int nTiles = rows <= 16 ? 2 : rows <= 32 ? 4 : 8;
        boolean manyRegisters = nTiles == 8 && Gemv.has6BitScales(w);
        int groupsPerSm = manyRegisters ? 1 : 2;
        long residentGroups = (long) groupsPerSm * launcher.multiprocessors();
        boolean manyTiles = MAX_SPLITS * KernelCall.groups(tiles, 2L * SIMDGROUPS) >= residentGroups;
        int wTiles = manyRegisters || manyTiles && nTiles < 8 ? 2 : 1;
        long groups = KernelCall.groups(tiles, (long) wTiles * SIMDGROUPS);
        long maxSplits = Math.clamp(fragments / MIN_FRAGMENTS_PER_SPLIT, 1, MAX_SPLITS);
        int splits = (int) Long.highestOneBit(Math.clamp(residentGroups / groups, Math.min(2, maxSplits), maxSplits));
        return new Plan(nTiles, wTiles, groupsPerSm, groups, splits);
    }
}
