package dev.starforge.kernels;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;

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

    private static final long MAX_BATCHES = 65535;

    private final Launcher launcher;

    Products(Launcher launcher) {
        this.launcher = launcher;
    }

    void matmul(Plain.MatMul op, Tensor a, Tensor b, Tensor c) {
        long rows = c.dim(-2);
        long columns = c.dim(-1);
        if (rows * columns == 0) {
            return;
        }
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

    /** Weights of one type together, as many as the kernel has parameters for; each by itself elsewhere. */
    void linear(Layers.Linear op, Tensor[] in, Tensor[] out) {
        boolean together = op.weights() <= TOGETHER;
        for (int i = 1; i < op.weights(); i++) {
            together &= in[1 + i].dtype() == in[1].dtype();
        }
        if (together) {
            linear(op, in, out, 0, op.weights());
        } else {
            for (int i = 0; i < op.weights(); i++) {
                linear(op, in, out, i, i + 1);
            }
        }
    }

    /** Weights from..to-1. What a kernel has parameters for and is not given is a buffer that it does not read. */
    private void linear(Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to) {
        long rows = in[0].dim(0);
        boolean few = rows <= FEW_ROWS;
        int tile = few ? FEW : TILE;
        Tensor[] weights = new Tensor[TOGETHER];
        Tensor[] biases = new Tensor[TOGETHER];
        Tensor[] results = new Tensor[TOGETHER];
        long[] columns = new long[TOGETHER];
        long tiles = 0;
        for (int i = 0; i < TOGETHER; i++) {
            int weight = Math.min(from + i, to - 1);
            weights[i] = in[1 + weight];
            results[i] = out[weight];
            biases[i] = op.bias() ? in[op.biasOf(1 + weight)] : results[i];
            columns[i] = from + i < to ? results[i].dim(1) : 0;
            tiles += Call.groups(columns[i], tile);
        }
        new Call(launcher, few ? Kernel.LINEAR_FEW : Kernel.LINEAR)
                .tensors(in[0])
                .tensors(weights)
                .tensors(biases)
                .tensors(op.residual() ? in[op.residualInput()] : results[0])
                .tensors(results)
                .i32(rows)
                .i32(in[0].dim(1))
                .i32(columns[0])
                .i32(columns[1])
                .i32(columns[2])
                .flag(op.bias())
                .i32(Dispatch.code(op.fn()))
                .flag(op.residual())
                .groups(tiles, Call.groups(rows, tile), 1);
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
