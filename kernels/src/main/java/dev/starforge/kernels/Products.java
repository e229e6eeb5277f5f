package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.Arrays;

/** Launches of products, and of what a mixture of experts needs around its own. */
final class Products {
    /** As common.kernel and experts.kernel have them. */
    static final int TILE = 64;

    static final int FEW = 8;
    static final int MAX_ROUTE_GROUPS = 1024;

    /**
     * Up to here a product with a transposed weight, of an expert's average number of rows with its own, is bound by
     * reading the weight and goes to the kernel for few rows.
     */
    private static final int FEW_ROWS = 32;

    /** Weights of one launch: queries, keys and values. */
    private static final int TOGETHER = 3;

    /** Blocks whose scales take so many registers that fewer pieces fit. */
    private static final int SUPER_BLOCK = 256;

    /** Columns of a group of {@link Kernel#FINISH}. */
    private static final int FINISHED = 8 * Launch.GROUP;

    private static final long MAX_BATCHES = 65535;

    /** Rows of a product that {@link Kernel#PROJECT} takes, in blocks of so many columns of mma. */
    static final int PROJECTED_ROWS = 64;

    private static final int MOST_COLUMNS = 32;

    /** Groups of {@link Kernel#PROJECT} that a multiprocessor holds. */
    private static final int RESIDENT = 2;

    private final Launcher launcher;
    private final Weights weights;

    Products(Launcher launcher, Weights weights) {
        this.launcher = launcher;
        this.weights = weights;
    }

    void matmul(Plain.MatMul op, Tensor a, Tensor b, Tensor c) {
        if (Call.size(c) == 0) {
            return;
        }
        if (isProjected(op, a.spec(), b.spec()) && (b.dtype().isQuantized() || Call.aligned(b))) {
            project(
                    new Layers.Linear(1, false, Fn.IDENTITY, false, c.dtype(), false),
                    new Tensor[] {a, b},
                    new Tensor[] {c},
                    0,
                    1);
        } else if (b.dtype().isQuantized()) {
            Scope scratch = launcher.scratch();
            scratch.mark();
            Tensor w = scratch.allocate(new Spec(a.dtype(), b.shape()));
            weights.dequantize(b, w);
            dense(op, a, w, c);
            scratch.release();
        } else {
            dense(op, a, b, c);
        }
    }

    /** Scratch memory of a product. */
    static long workspace(Plain.MatMul op, Spec a, Spec b) {
        return b.dtype().isQuantized() && !isProjected(op, a, b) ? new Spec(a.dtype(), b.shape()).bytes() : 0;
    }

    /** Whether weights are read once, for few rows, by {@link Kernel#PROJECT}. */
    private static boolean isProjected(Plain.MatMul op, Spec a, Spec b) {
        DType w = b.dtype();
        boolean types = w.isQuantized() || w == DType.BF16 || w == DType.F16 && a.dtype() == DType.F16;
        return types
                && !op.transposeA()
                && op.transposeB()
                && a.shape().rank() == 2
                && a.shape().dim(0) <= PROJECTED_ROWS / (a.dtype() == DType.F32 ? 4 : 1)
                && b.shape().dim(0) > 0
                && b.shape().last() > 0
                && b.shape().last() % Tiles.PIECE == 0;
    }

    /** One launch for weights from..to-1 of one type; what is not there is a buffer that the kernel does not read. */
    private void project(Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to) {
        Tensor x = in[0];
        DType w = in[1 + from].dtype();
        DType mma = w.isQuantized() ? x.dtype() == DType.F16 ? DType.F16 : DType.BF16 : w;
        int parts = mma == x.dtype() ? 1 : x.dtype() == DType.F32 ? 3 : 2;
        long rows = x.dim(0);
        int eights = 1;
        while (eights * (8 / parts) < rows && 8 * eights < MOST_COLUMNS) {
            eights *= 2;
        }
        Call call = new Call(launcher, Kernel.PROJECT)
                .define("DEPTH", depth(w, x.dim(1)))
                .define("MMA", Variant.spelled(mma))
                .define("NT", eights)
                .define("PARTS", parts)
                .unaligned("UNALIGNED_X", x);
        if (w.isQuantized()) {
            call.define("FORMAT", w.name());
            call.define("CODE_PARTS", Weights.isNf4(w) && x.dtype() == DType.F32 ? 3 : 1);
        }
        if (!Arrays.stream(in, 1 + from, 1 + to).allMatch(Call::aligned)) {
            call.define("UNALIGNED_W", 1);
        }
        long tiles = arguments(call, op, in, out, from, to, Tiles.ROWS);
        long turns = Call.groups(tiles, (long) RESIDENT * launcher.multiprocessors());
        call.groups(Call.groups(tiles, turns), Call.groups(rows, eights * (8L / parts)), 1);
    }

    private void dense(Plain.MatMul op, Tensor a, Tensor b, Tensor c) {
        if (launcher.product(op, a, b, c)) {
            return;
        }
        long rows = c.dim(-2);
        long columns = c.dim(-1);
        long batches = Call.size(c) / (rows * columns);
        long terms = a.dim(op.transposeA() ? -2 : -1);
        boolean few = rows <= FEW_ROWS && !op.transposeA() && op.transposeB();
        Call call = new Call(launcher, few ? Kernel.MATMUL_FEW : Kernel.MATMUL)
                .tensors(a, b, c)
                .i32(batches)
                .i32(rows)
                .i32(columns)
                .i32(terms);
        if (few) {
            call.groups(Call.groups(columns, FEW), Call.groups(rows, FEW), Math.min(batches, MAX_BATCHES));
        } else {
            call.flag(op.transposeA())
                    .flag(op.transposeB())
                    .groups(Call.groups(columns, TILE), Call.groups(rows, TILE), Math.min(batches, MAX_BATCHES));
        }
    }

    /** Weights of one type together, as many as kernels have parameters for; each by itself elsewhere. */
    void linear(Layers.Linear op, Tensor[] in, Tensor[] out) {
        boolean together = op.weights() <= TOGETHER;
        boolean projected = true;
        for (int i = 0; i < op.weights(); i++) {
            Tensor w = in[1 + i];
            together &= w.dtype() == in[1].dtype();
            projected &= isProjected(op.product(), in[0].spec(), w.spec())
                    && (w.dtype().isQuantized() || Call.aligned(w));
        }
        int step = together ? op.weights() : 1;
        for (int i = 0; i < op.weights(); i += step) {
            if (projected) {
                project(op, in, out, i, i + step);
            } else if (in[0].dim(0) > FEW_ROWS || in[1 + i].dtype().isQuantized()) {
                for (int weight = i; weight < i + step; weight++) {
                    product(op, in, out, weight);
                }
            } else {
                portable(op, in, out, i, i + step);
            }
        }
    }

    /** Pieces on their way to a lane: as many as registers hold, if that divides those it has of a row. */
    private static int depth(DType w, long terms) {
        int most = w.isQuantized() && w.blockElements() < SUPER_BLOCK ? 6 : 4;
        long turns = Call.groups(terms / Tiles.PIECE, 8);
        for (int depth = most; depth > most / 2; depth--) {
            if (turns % depth == 0) {
                return depth;
            }
        }
        return most;
    }

    /** One weight by the maker's library, and what follows by a kernel of ours; without one, all by ours. */
    private void product(Layers.Linear op, Tensor[] in, Tensor[] out, int weight) {
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor[] dense = in.clone();
        if (in[1 + weight].dtype().isQuantized()) {
            dense[1 + weight] = scratch.allocate(new Spec(in[0].dtype(), in[1 + weight].shape()));
            weights.dequantize(in[1 + weight], dense[1 + weight]);
        }
        Tensor y = out[weight];
        Tensor w = dense[1 + weight];
        boolean any = Call.size(y) > 0;
        boolean sum = op.residual() && !op.bias() && op.fn() == Fn.IDENTITY;
        if (any && sum && launcher.addProduct(op.product(), in[0], w, in[op.residualInput()], y)) {
            scratch.release();
            return;
        }
        if (any && launcher.product(op.product(), in[0], w, y)) {
            if (op.bias() || op.fn() != Fn.IDENTITY || op.residual()) {
                finish(op, in, y, weight);
            }
        } else {
            portable(op, dense, out, weight, weight + 1);
        }
        scratch.release();
    }

    /** What follows a product, as many rows at a time as a launch has groups for. */
    private void finish(Layers.Linear op, Tensor[] in, Tensor y, int weight) {
        long columns = y.dim(1);
        for (long from = 0; from < y.dim(0); from += MAX_BATCHES) {
            Shape part = Shape.of(Math.min(MAX_BATCHES, y.dim(0) - from), columns);
            Tensor rows = y.view(from * columns, part);
            new Call(launcher, Kernel.FINISH)
                    .tensors(
                            rows,
                            op.bias() ? in[op.biasOf(1 + weight)] : rows,
                            op.residual() ? in[op.residualInput()].view(from * columns, part) : rows)
                    .i32(columns)
                    .flag(op.bias())
                    .i32(Dispatch.code(op.fn()))
                    .flag(op.residual())
                    .groups(Call.groups(columns, FINISHED), part.dim(0), 1);
        }
    }

    private void portable(Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to) {
        long rows = in[0].dim(0);
        boolean few = rows <= FEW_ROWS;
        int tile = few ? FEW : TILE;
        Call call = new Call(launcher, few ? Kernel.LINEAR_FEW : Kernel.LINEAR);
        long tiles = arguments(call, op, in, out, from, to, tile);
        call.groups(tiles, Call.groups(rows, tile), 1);
    }

    /** Weights from..to-1 with all that goes with them; how many tiles they have. What a kernel is not given it does not read. */
    private static long arguments(Call call, Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to, int tile) {
        Tensor[] matrices = new Tensor[TOGETHER];
        Tensor[] biases = new Tensor[TOGETHER];
        Tensor[] results = new Tensor[TOGETHER];
        long[] columns = new long[TOGETHER];
        long tiles = 0;
        for (int i = 0; i < TOGETHER; i++) {
            int weight = Math.min(from + i, to - 1);
            matrices[i] = in[1 + weight];
            results[i] = out[weight];
            biases[i] = op.bias() ? in[op.biasOf(1 + weight)] : results[i];
            columns[i] = from + i < to ? results[i].dim(1) : 0;
            tiles += Call.groups(columns[i], tile);
        }
        call.tensors(in[0])
                .tensors(matrices)
                .tensors(biases)
                .tensors(op.residual() ? in[op.residualInput()] : results[0])
                .tensors(results)
                .i32(in[0].dim(0))
                .i32(in[0].dim(1))
                .i32(columns[0])
                .i32(columns[1])
                .i32(columns[2])
                .flag(op.bias())
                .i32(Dispatch.code(op.fn()))
                .flag(op.residual());
        return tiles;
    }

    void expertMatmul(boolean transposeB, Tensor x, Tensor w, Tensor offsets, Tensor y) {
        long experts = w.dim(0);
        long rows = y.dim(0);
        long columns = y.dim(1);
        boolean few = transposeB && rows <= FEW_ROWS * experts;
        int tile = few ? FEW : TILE;
        long slots = rows / tile + experts;
        boolean byRow = rows <= slots;
        Call call = new Call(launcher, few ? Kernel.EXPERT_MATMUL_FEW : Kernel.EXPERT_MATMUL)
                .tensors(x, w, offsets, y)
                .i32(experts)
                .i32(columns)
                .i32(x.dim(1))
                .flag(byRow);
        if (!few) {
            call.flag(transposeB);
        }
        call.groups(Call.groups(columns, tile), byRow ? rows : slots, Math.min(experts, 1));
    }

    /** (a, b, offsets) -> y[E, rows, columns]. */
    void expertOuter(Tensor[] in, Tensor y) {
        new Call(launcher, Kernel.EXPERT_OUTER)
                .tensors(in)
                .tensors(y)
                .i32(y.dim(0))
                .i32(y.dim(1))
                .i32(y.dim(2))
                .groups(Call.groups(y.dim(2), TILE), Call.groups(y.dim(1), TILE), Math.min(y.dim(0), MAX_BATCHES));
    }

    void group(int experts, Tensor chosen, Tensor[] out) {
        new Call(launcher, Kernel.GROUP)
                .tensors(chosen)
                .tensors(out)
                .i32(Call.size(chosen))
                .i32(chosen.shape().last())
                .groups(experts + 1L);
    }

    void route(Routing.Route op, Tensor scores, Tensor chosen) {
        if (op.groups() > MAX_ROUTE_GROUPS) {
            throw new DeviceException("Route: " + op.groups() + " groups are more than " + MAX_ROUTE_GROUPS);
        }
        new Call(launcher, Kernel.ROUTE)
                .tensors(scores, chosen)
                .i32(scores.dim(1))
                .i32(op.k())
                .i32(op.groups())
                .i32(op.kept())
                .i32(op.votes())
                .groups(scores.dim(0));
    }
}
