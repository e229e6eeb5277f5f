package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Layers;

/**
 * Launches of batch.kernel: products of more rows than eight, with weights that are still read once. How a sum is split depends on the
 * matrix and the chip, and on which of three sizes the batch fits.
 */
final class ProjectBatch {
    /** Rows of x up to which {@link Project} takes them at once. */
    static final int FEW_ROWS = 8;

    /**
     * Up to how many rows weights of 16 bits are taken. The maker's library multiplies them faster, but what follows a product, and the sum
     * of its splits, are launches of their own.
     */
    static final int DENSE_ROWS = 32;

    /** Groups that split K: what a cluster takes on every chip that has them. */
    private static final int MOST_SPLITS = 8;

    /** Pieces of K that each of them has at least. */
    private static final int FEWEST_PIECES = 2;

    /** Columns of all splits, where there are more than two: those of the groups that large chips hold at once. */
    private static final long MOST_COLUMNS = 1 << 17;

    private static final int SIMDGROUPS = Launch.GROUP / 32;

    private final Launcher launcher;

    ProjectBatch(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Of what {@link Project} takes: 16-bit rows that need not be split into parts, and weights whose scales are among them. */
    static boolean takes(Tensor[] in, int from, int to) {
        DType w = in[1 + from].dtype();
        return in[0].dtype() != DType.F32
                && in[0].dim(0) > FEW_ROWS
                && (w == in[0].dtype() || w.isQuantized() && w != DType.NF4_DOUBLE)
                && Call.aligned(in[0])
                && Project.aligned(in, from, to);
    }

    /** Memory for sums of groups that cannot reach each other, at most. */
    static long workspace(Spec x, long columns) {
        boolean split = x.dtype() != DType.F32 && x.shape().dim(0) > FEW_ROWS;
        long whole = Call.groups(columns, Tiles.ROWS) * Tiles.ROWS;
        long all = Math.max(2 * whole, Math.min(MOST_SPLITS * whole, MOST_COLUMNS));
        return split ? x.shape().dim(0) * all * Float.BYTES : 0;
    }

    void run(Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to) {
        Tensor x = in[0];
        DType w = in[1 + from].dtype();
        long tiles = Project.tiles(out, from, to, Tiles.ROWS);
        Plan plan = plan(w, x.dim(0), x.dim(1) / Tiles.PIECE, tiles);
        boolean clustered = launcher.clusters() && plan.splits > 1;
        boolean apart = plan.splits > 1 && !clustered;
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor parts = scratch.allocate(Spec.f32(apart ? plan.splits : 0, x.dim(0), tiles * Tiles.ROWS));
        Call call = new Call(launcher, Kernel.PROJECT_BATCH)
                .define("FN", Dispatch.code(op.fn()))
                .define("FORMAT", w.isQuantized() ? w.name() : "DENSE")
                .define("MMA", Variant.spelled(x.dtype()))
                .define("NT", plan.eights)
                .define("RESIDENT", plan.resident)
                .define("RT", plan.tiles);
        if (clustered) {
            call.define("CLUSTER", plan.splits);
        }
        Project.arguments(call.tensors(x), op, in, out, from, to, Tiles.ROWS);
        call.tensors(parts).groups(plan.groups, 1, plan.splits);
        if (apart) {
            Call sum = new Call(launcher, Kernel.SUM_PARTS)
                    .define("FN", Dispatch.code(op.fn()))
                    .tensors(parts);
            Project.epilogue(sum, op, in, out, from, to);
            sum.i32(plan.splits).groups(Call.groups(parts.dim(2), Launch.GROUP), parts.dim(1), 1);
        }
        scratch.release();
    }

    /**
     * What a launch is compiled for, and its groups.
     *
     * @param eights blocks of eight rows of x
     * @param tiles of a simdgroup
     * @param resident groups that a multiprocessor holds
     * @param groups of all tiles
     * @param splits groups that share the terms of a sum
     */
    private record Plan(int eights, int tiles, int resident, long groups, int splits) {}

    /**
     * By what was fastest on Hopper: all groups at once, two on a multiprocessor, so that one computes while the other waits, as far as
     * sums can be split. Matrices with tiles enough have two for a simdgroup, which share what it reads of x. Scales of six bits
     * with 64 rows need the registers of two groups, so that one is resident.
     */
    private Plan plan(DType w, long rows, long pieces, long tiles) {
        int eights = rows <= 16 ? 2 : rows <= 32 ? 4 : 8;
        boolean manyRegisters = eights == 8 && Project.hasScalesOfSix(w);
        int resident = manyRegisters ? 1 : 2;
        long places = (long) resident * launcher.multiprocessors();
        boolean manyTiles = MOST_SPLITS * Call.groups(tiles, 2L * SIMDGROUPS) >= places;
        int each = manyRegisters || manyTiles && eights < 8 ? 2 : 1;
        long groups = Call.groups(tiles, (long) each * SIMDGROUPS);
        long most = Math.clamp(pieces / FEWEST_PIECES, 1, MOST_SPLITS);
        int splits = (int) Long.highestOneBit(Math.clamp(places / groups, Math.min(2, most), most));
        return new Plan(eights, each, resident, groups, splits);
    }
}
