package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Plain;
import java.util.Arrays;

/** Launches of project.kernel: products of few rows, whose time is that of reading the weights once. */
final class Project {
    /** Rows of a product that {@link Kernel#PROJECT} takes, in blocks of so many columns of mma. */
    static final int ROWS = 64;

    private static final int MOST_COLUMNS = 32;

    /** Weights of one launch: queries, keys and values. */
    static final int TOGETHER = 3;

    /** Blocks whose scales take so many registers that fewer pieces fit. */
    private static final int SUPER_BLOCK = 256;

    /** Groups that a multiprocessor holds: more where there are tiles for them, and registers. */
    private static final int FEW_RESIDENT = 2;

    private static final int MANY_RESIDENT = 3;

    /** As project.kernel has them: columns of a turn of all simdgroups, numbers of x in shared memory, numbers between its rows. */
    private static final int TURN = 512;

    private static final long X_NUMBERS = 2 * 10240;
    private static final long X_PAD = 16;

    /** Numbers of x whose place is taken by pairs of NF4's codes. */
    private static final long TABLE = 2 * 4096;

    private final Launcher launcher;
    private final ProjectBatch batch;

    Project(Launcher launcher) {
        this.launcher = launcher;
        batch = new ProjectBatch(launcher);
    }

    /** Whether weights are read once, for few rows. */
    static boolean takes(Plain.MatMul op, Spec a, Spec b) {
        DType w = b.dtype();
        boolean types = w.isQuantized() || w == DType.BF16 || w == DType.F16 && a.dtype() == DType.F16;
        return types
                && !op.transposeA()
                && op.transposeB()
                && a.shape().rank() == 2
                && a.shape().dim(0)
                        <= (w == a.dtype() ? ProjectBatch.DENSE_ROWS : ROWS / (a.dtype() == DType.F32 ? 4 : 1))
                && b.shape().dim(0) > 0
                && b.shape().last() > 0
                && b.shape().last() % Tiles.PIECE == 0;
    }

    /** The same of one that may be anywhere in memory. */
    static boolean takes(Plain.MatMul op, Tensor a, Tensor b) {
        return takes(op, a.spec(), b.spec()) && (b.dtype().isQuantized() || Call.aligned(b));
    }

    /** A product and nothing else. */
    static Layers.Linear plain(DType result) {
        return new Layers.Linear(1, false, Fn.IDENTITY, false, result, false);
    }

    /** One launch for weights from..to-1 of one type; what is not there is a buffer that the kernel does not read. */
    void run(Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to) {
        if (ProjectBatch.takes(in, from, to)) {
            batch.run(op, in, out, from, to);
            return;
        }
        Plan plan = plan(in, out, from, to);
        Call call = plan.call(launcher, Kernel.PROJECT).tensors(in[0]);
        launch(plan, call, arguments(call, op, in, out, from, to, Tiles.ROWS), in[0].dim(0));
    }

    /** Whether a norm can go before a product: x is a row of 16 bits, and fits into shared memory beside the norm's weights. */
    boolean takesNorm(Norming.Norm norm, Layers.Linear op, Tensor[] in, Tensor[] out) {
        Tensor x = in[0];
        boolean taken = op.weights() <= TOGETHER && norm.x().dtype() == x.dtype();
        for (int i = 1; i <= op.weights(); i++) {
            taken &= in[i].dtype() == in[1].dtype() && takes(op.product(), x, in[i]);
        }
        long numbers = x.dim(1) + 2 * x.dim(1) * (norm.rms() ? 1 : 2);
        if (!taken || numbers > X_NUMBERS || !Call.aligned(norm.weight()) || !Call.aligned(norm.bias())) {
            return false;
        }
        Plan plan = plan(in, out, 0, op.weights());
        return plan.ring.whole && plan.parts == 1;
    }

    void runNormed(Norming.Norm norm, Layers.Linear op, Tensor[] in, Tensor[] out) {
        Plan plan = plan(in, out, 0, op.weights());
        Call call = plan.call(launcher, Kernel.NORM_PROJECT)
                .define("NORM", norm.rms() ? "RMS_NORM" : "LAYER_NORM")
                .define("TERMS", in[0].dim(1))
                .tensors(norm.x(), norm.addend(), norm.weight(), norm.bias())
                .tensors(norm.sum(), norm.normed(), norm.means(), norm.rstds())
                .flag(norm.adds())
                .f32(norm.eps());
        launch(plan, call, arguments(call, op, in, out, 0, op.weights(), Tiles.ROWS), 1);
    }

    private void launch(Plan plan, Call call, long tiles, long rows) {
        long turns = Call.groups(tiles, (long) plan.ring.resident * launcher.multiprocessors());
        call.groups(Call.groups(tiles, turns), Call.groups(rows, plan.rowsAtOnce()), 1);
    }

    /**
     * What a launch is compiled for.
     *
     * @param mma the type of its numbers
     * @param parts numbers that one of x is the sum of
     * @param eights blocks of eight columns of mma
     * @param pad numbers between rows of x in shared memory
     * @param byteTable whether codes are looked up two at a time, which rounds them to numbers of mma
     */
    private record Plan(
            DType x,
            DType w,
            DType mma,
            int parts,
            int eights,
            long pad,
            boolean byteTable,
            Ring ring,
            boolean aligned,
            boolean alignedX) {
        long rowsAtOnce() {
            return eights * (8L / parts);
        }

        Call call(Launcher launcher, Kernel kernel) {
            Call call = new Call(launcher, kernel)
                    .define("DEPTH", ring.depth)
                    .define("MMA", Variant.spelled(mma))
                    .define("NT", eights)
                    .define("PAD", pad)
                    .define("PARTS", parts);
            if (ring.whole) {
                call.define("RESIDENT", ring.resident).define("WHOLE", 1);
            }
            if (w.isQuantized()) {
                call.define("FORMAT", w.name());
                call.define("CODE_PARTS", Weights.isNf4(w) && x == DType.F32 ? 3 : 1);
            }
            if (byteTable) {
                call.define("BYTE_TABLE", 1);
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
        int parts = mma == x.dtype() ? 1 : x.dtype() == DType.F32 ? 3 : 2;
        long rows = x.dim(0);
        int eights = 1;
        while (eights * (8 / parts) < rows && 8 * eights < MOST_COLUMNS) {
            eights *= 2;
        }
        long slots = slots(Math.min(rows, eights * (8L / parts)), parts);
        long pad = slots == 1 ? 0 : X_PAD;
        boolean byteTable = Weights.isNf4(w) && x.dtype() != DType.F32 && slots * (TURN + pad) <= X_NUMBERS - TABLE;
        long room = X_NUMBERS - (byteTable ? TABLE : 0);
        Ring ring = ring(w, x.dim(1), slots * (x.dim(1) + pad) <= room, tiles(out, from, to, Tiles.ROWS));
        return new Plan(x.dtype(), w, mma, parts, eights, pad, byteTable, ring, aligned(in, from, to), Call.aligned(x));
    }

    /**
     * How weights are read.
     *
     * @param depth pieces on their way to a lane
     * @param resident groups that a multiprocessor holds
     * @param whole whether all of x fits into shared memory and all lanes have as many pieces, a multiple of depth
     */
    private record Ring(int depth, int resident, boolean whole) {}

    /**
     * Few tiles, and so few groups, or nothing to decode: more pieces each. Many: more groups, so that some compute while others
     * wait.
     */
    private Ring ring(DType w, long terms, boolean fits, long tiles) {
        boolean scalesOfSix = hasScalesOfSix(w);
        boolean few = scalesOfSix || !w.isQuantized() || tiles <= (long) FEW_RESIDENT * launcher.multiprocessors();
        int most = scalesOfSix ? 4 : few || isFourBits(w) ? 6 : 4;
        int depth = depth(most, terms);
        boolean whole = fits && terms % ((long) depth * TURN) == 0;
        return whole
                ? new Ring(depth, few ? FEW_RESIDENT : MANY_RESIDENT, true)
                : new Ring(depth(isFourBits(w) ? 6 : 4, terms), FEW_RESIDENT, false);
    }

    private static boolean isFourBits(DType w) {
        return w.isQuantized() && w != DType.Q8_0 && w != DType.INT8_128 && w.blockElements() < SUPER_BLOCK;
    }

    /** Columns of mma that so many rows of x take. */
    private static long slots(long rows, int parts) {
        long each = 8 / parts;
        return (rows - 1) / each * 8 + (rows - 1) % each * parts + parts;
    }

    static boolean aligned(Tensor[] in, int from, int to) {
        return Arrays.stream(in, 1 + from, 1 + to).allMatch(Call::aligned);
    }

    static long tiles(Tensor[] out, int from, int to, int tile) {
        long tiles = 0;
        for (int i = from; i < to; i++) {
            tiles += Call.groups(out[i].dim(1), tile);
        }
        return tiles;
    }

    /** Formats whose scales of six bits take many registers. */
    static boolean hasScalesOfSix(DType w) {
        return w == DType.Q4_K || w == DType.Q5_K;
    }

    /** As many as there may be, if that divides those that a lane has of a row. */
    private static int depth(int most, long terms) {
        long turns = Call.groups(terms / Tiles.PIECE, 8);
        for (int depth = most; depth > most / 2; depth--) {
            if (turns % depth == 0) {
                return depth;
            }
        }
        return most;
    }

    /** Weights from..to-1 with all that goes with them; how many tiles they have. What a kernel is not given it does not read. */
    static long arguments(Call call, Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to, int tile) {
        for (int i = 0; i < TOGETHER; i++) {
            call.tensors(in[1 + Math.min(from + i, to - 1)]);
        }
        epilogue(call, op, in, out, from, to);
        call.i32(in[0].dim(1));
        return tiles(out, from, to, tile);
    }

    /** What follows the products: biases, residual, results, rows, columns of each, and which of these there are. */
    static void epilogue(Call call, Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to) {
        Tensor[] biases = new Tensor[TOGETHER];
        Tensor[] results = new Tensor[TOGETHER];
        for (int i = 0; i < TOGETHER; i++) {
            int weight = Math.min(from + i, to - 1);
            results[i] = out[weight];
            biases[i] = op.bias() ? in[op.biasOf(1 + weight)] : results[i];
        }
        call.tensors(biases)
                .tensors(op.residual() ? in[op.residualInput()] : results[0])
                .tensors(results)
                .i32(in[0].dim(0));
        for (int i = 0; i < TOGETHER; i++) {
            call.i32(from + i < to ? results[i].dim(1) : 0);
        }
        call.flag(op.bias()).i32(Dispatch.code(op.fn())).flag(op.residual());
    }
}
