package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Plain;
import java.util.Arrays;

/** Launches of gemv.kernel: linear layers of few rows, bound by reading the weights once. */
final class Gemv {
    /** The largest number of rows. */
    static final int MAX_ROWS = 64;

    private static final int MAX_MMA_COLUMNS = 32;

    /** Weights per launch: Q, K and V. */
    static final int MAX_WEIGHTS = 3;

    /** Formats with blocks of this size need registers for their scales, so fewer fragments are prefetched. */
    private static final int SUPER_BLOCK_ELEMENTS = 256;

    /** Resident groups per multiprocessor: more if there are enough tiles, and registers. */
    private static final int FEW_GROUPS_PER_SM = 2;

    private static final int MANY_GROUPS_PER_SM = 3;

    /** Constants of gemv.kernel: columns of K per pass of all simdgroups, elements of x in shared memory, padding between its rows. */
    private static final int K_PER_PASS = 512;

    private static final long X_SHARED_VALUES = 2 * 10240;
    private static final long X_PAD = 16;

    /** Shared memory of the NF4 table, in elements of x. */
    private static final long NF4_TABLE_VALUES = 2 * 4096;

    private final Launcher launcher;
    private final SmallBatchGemm batch;

    Gemv(Launcher launcher) {
        this.launcher = launcher;
        batch = new SmallBatchGemm(launcher);
    }

    /** Returns true if the kernels that read weights once support this product, on a device with {@link Sibling#MMA}. */
    static boolean supports(Plain.MatMul op, Spec a, Spec b) {
        DType w = b.dtype();
        boolean types = w.isQuantized() || w == DType.BF16 || w == DType.F16 && a.dtype() == DType.F16;
        return types
                && !op.transposeA()
                && op.transposeB()
                && a.shape().rank() == 2
                && a.shape().dim(0)
                        <= (w == a.dtype()
                                ? SmallBatchGemm.MAX_DENSE_ROWS
                                : MAX_ROWS / (a.dtype() == DType.F32 ? 4 : 1))
                && b.shape().dim(0) > 0
                && b.shape().last() > 0
                && b.shape().last() % WeightTiles.FRAGMENT_COLUMNS == 0;
    }

    /** The same for this device, with the alignment of the tensors. */
    boolean supports(Plain.MatMul op, Tensor a, Tensor b) {
        return launcher.siblings().contains(Sibling.MMA)
                && supports(op, a.spec(), b.spec())
                && (b.dtype().isQuantized() || KernelCall.aligned(b));
    }

    /** A linear layer without epilogue. */
    static Layers.Linear matmulOnly(DType result) {
        return new Layers.Linear(1, false, Fn.IDENTITY, false, result, false);
    }

    /** One launch for weights from..to-1, which have one type; unused parameters get buffers that the kernel does not read. */
    void run(Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to) {
        if (SmallBatchGemm.supports(in, from, to)) {
            batch.run(op, in, out, from, to);
            return;
        }
        Plan plan = plan(in, out, from, to);
        KernelCall call = plan.call(launcher, Kernel.GEMV).tensors(in[0]);
        launch(plan, call, addArguments(call, op, in, out, from, to, WeightTiles.ROWS), in[0].dim(0));
    }

    /** Returns true if a norm can be fused: x is one 16-bit row that fits into shared memory beside the norm's weights. */
    boolean supportsNorm(NormMatMulFusion.Norm norm, Layers.Linear op, Tensor[] in, Tensor[] out) {
        Tensor x = in[0];
        boolean taken = op.weights() <= MAX_WEIGHTS && norm.x().dtype() == x.dtype();
        for (int i = 1; i <= op.weights(); i++) {
            taken &= in[i].dtype() == in[1].dtype() && supports(op.product(), x, in[i]);
        }
        long numbers = x.dim(1) + 2 * x.dim(1) * (norm.rms() ? 1 : 2);
        if (!taken
                || numbers > X_SHARED_VALUES
                || !KernelCall.aligned(norm.weight())
                || !KernelCall.aligned(norm.bias())) {
            return false;
        }
        Plan plan = plan(in, out, 0, op.weights());
        return plan.prefetch.xResident && plan.xSplit == 1;
    }

    void runWithNorm(NormMatMulFusion.Norm norm, Layers.Linear op, Tensor[] in, Tensor[] out) {
        Plan plan = plan(in, out, 0, op.weights());
        KernelCall call = plan.call(launcher, Kernel.NORM_GEMV)
                .define("NORM", norm.rms() ? "RMS_NORM" : "LAYER_NORM")
                .define("K_SIZE", in[0].dim(1))
                .tensors(norm.x(), norm.addend(), norm.weight(), norm.bias());
        (norm.adds() ? call.tensors(norm.sum()) : call.absent(norm.x().dtype())).tensors(norm.normed());
        (norm.rms() ? call.absent(norm.means().dtype()) : call.tensors(norm.means()))
                .tensors(norm.rstds())
                .flag(norm.adds())
                .f32(norm.eps());
        launch(plan, call, addArguments(call, op, in, out, 0, op.weights(), WeightTiles.ROWS), 1);
    }

    private void launch(Plan plan, KernelCall call, long tiles, long rows) {
        long turns = KernelCall.groups(tiles, (long) plan.prefetch.groupsPerSm * launcher.multiprocessors());
        call.groups(KernelCall.groups(tiles, turns), KernelCall.groups(rows, plan.rowsPerPass()), 1);
    }

    /**
     * The compile-time parameters of a launch.
     *
     * @param mma element type of mma
     * @param xSplit terms that x is split into
     * @param nTiles tiles of eight mma columns
     * @param xPad elements between rows of x in shared memory
     * @param nf4ByteTable whether NF4 values are looked up in pairs, which rounds them to the type of mma
     */
    private record Plan(
            DType x,
            DType w,
            DType mma,
            int xSplit,
            int nTiles,
            long xPad,
            boolean nf4ByteTable,
            Prefetch prefetch,
            boolean aligned,
            boolean alignedX) {
        long rowsPerPass() {
            return nTiles * (8L / xSplit);
        }

        KernelCall call(Launcher launcher, Kernel kernel) {
            KernelCall call = new KernelCall(launcher, kernel)
                    .define("PREFETCH", prefetch.depth)
                    .define("MMA_TYPE", Variant.typeName(mma))
                    .define("N_TILES", nTiles)
                    .define("X_PAD", xPad)
                    .define("X_SPLIT", xSplit);
            if (prefetch.xResident) {
                call.define("MIN_GROUPS_PER_SM", prefetch.groupsPerSm).define("X_RESIDENT", 1);
            }
            if (w.isQuantized()) {
                call.define("FORMAT", w.name());
                call.define("W_SPLIT", QuantizedWeights.isNf4(w) && x == DType.F32 ? 3 : 1);
            }
            if (nf4ByteTable) {
                call.define("NF4_BYTE_TABLE", 1);
            }
            if (!alignedX) {
                call.define("UNALIGNED_X", 1);
            }
            return aligned ? call : call.define("UNALIGNED_W", 1);
        }
    }

    private Plan plan(Tensor[] in, Tensor[] out, int from, int to) {
        Tensor x = in[0];
        DType w = in[1 + from].dtype();
        DType mma = w.isQuantized() ? x.dtype() == DType.F16 ? DType.F16 : DType.BF16 : w;
        int xSplit = mma == x.dtype() ? 1 : x.dtype() == DType.F32 ? 3 : 2;
        long rows = x.dim(0);
        int nTiles = 1;
        while (nTiles * (8 / xSplit) < rows && 8 * nTiles < MAX_MMA_COLUMNS) {
            nTiles *= 2;
        }
        long mmaColumns = mmaColumns(Math.min(rows, nTiles * (8L / xSplit)), xSplit);
        long xPad = mmaColumns == 1 ? 0 : X_PAD;
        boolean nf4ByteTable = QuantizedWeights.isNf4(w)
                && x.dtype() != DType.F32
                && mmaColumns * (K_PER_PASS + xPad) <= X_SHARED_VALUES - NF4_TABLE_VALUES;
        long room = X_SHARED_VALUES - (nf4ByteTable ? NF4_TABLE_VALUES : 0);
        Prefetch prefetch =
                prefetch(w, x.dim(1), mmaColumns * (x.dim(1) + xPad) <= room, tiles(out, from, to, WeightTiles.ROWS));
        return new Plan(
                x.dtype(),
                w,
                mma,
                xSplit,
                nTiles,
                xPad,
                nf4ByteTable,
                prefetch,
                aligned(in, from, to),
                KernelCall.aligned(x));
    }

    /**
     * How weights are prefetched.
     *
     * @param depth fragments in flight per lane
     * @param groupsPerSm resident groups per multiprocessor
     * @param xResident whether all of x fits into shared memory and every lane has a multiple of depth fragments
     */
    private record Prefetch(int depth, int groupsPerSm, boolean xResident) {}

    /** Few tiles, or nothing to decode: more fragments per lane. Many tiles: more groups, so that some compute while others wait. */
    private Prefetch prefetch(DType w, long k, boolean fits, long tiles) {
        boolean scalesOfSix = has6BitScales(w);
        boolean few = scalesOfSix || !w.isQuantized() || tiles <= (long) FEW_GROUPS_PER_SM * launcher.multiprocessors();
        int maxDepth = scalesOfSix ? 4 : few || isFourBits(w) ? 6 : 4;
        int depth = depth(maxDepth, k);
        boolean xResident = fits && k % ((long) depth * K_PER_PASS) == 0;
        return xResident
                ? new Prefetch(depth, few ? FEW_GROUPS_PER_SM : MANY_GROUPS_PER_SM, true)
                : new Prefetch(depth(isFourBits(w) ? 6 : 4, k), FEW_GROUPS_PER_SM, false);
    }

    private static boolean isFourBits(DType w) {
        return w.isQuantized() && w != DType.Q8_0 && w != DType.INT8_128 && w.blockElements() < SUPER_BLOCK_ELEMENTS;
    }

    /** Columns of mma operand B for this many rows of x. */
    private static long mmaColumns(long rows, int xSplit) {
        long each = 8 / xSplit;
        return (rows - 1) / each * 8 + (rows - 1) % each * xSplit + xSplit;
    }

    static boolean aligned(Tensor[] in, int from, int to) {
        return Arrays.stream(in, 1 + from, 1 + to).allMatch(KernelCall::aligned);
    }

    static long tiles(Tensor[] out, int from, int to, int tile) {
        long tiles = 0;
        for (int i = from; i < to; i++) {
            tiles += KernelCall.groups(out[i].dim(1), tile);
        }
        return tiles;
    }

    /** Formats with 6-bit scales, which take many registers. */
    static boolean has6BitScales(DType w) {
        return w == DType.Q4_K || w == DType.Q5_K;
    }

    /** The largest depth of at least half of maxDepth that divides the fragments of a lane, or else maxDepth. */
    private static int depth(int maxDepth, long k) {
        long turns = KernelCall.groups(k / WeightTiles.FRAGMENT_COLUMNS, 8);
        for (int depth = maxDepth; depth > maxDepth / 2; depth--) {
            if (turns % depth == 0) {
                return depth;
            }
        }
        return maxDepth;
    }

    /** Adds weights from..to-1 and the epilogue to a call, and returns their number of tiles. Unused weights repeat used ones. */
    static long addArguments(KernelCall call, Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to, int tile) {
        for (int i = 0; i < MAX_WEIGHTS; i++) {
            call.tensors(in[1 + Math.min(from + i, to - 1)]);
        }
        addEpilogue(call, op, in, out, from, to);
        call.i32(in[0].dim(1));
        return tiles(out, from, to, tile);
    }

    /** Adds biases, residual, outputs, sizes and flags of the epilogue. */
    static void addEpilogue(KernelCall call, Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to) {
        DType result = out[from].dtype();
        for (int i = from; i < from + MAX_WEIGHTS; i++) {
            boolean absent = i >= to || !op.bias();
            call = absent
                    ? call.absent(op.bias() ? in[op.biasOf(1 + from)].dtype() : result)
                    : call.tensors(in[op.biasOf(1 + i)]);
        }
        call = op.residual() ? call.tensors(in[op.residualInput()]) : call.absent(result);
        for (int i = from; i < from + MAX_WEIGHTS; i++) {
            call = i < to ? call.tensors(out[i]) : call.absent(result);
        }
        call.i32(in[0].dim(0));
        for (int i = from; i < from + MAX_WEIGHTS; i++) {
            call.i32(i < to ? out[i].dim(1) : 0);
        }
        call.flag(op.bias()).i32(Dispatch.code(op.fn())).flag(op.residual());
    }
}
