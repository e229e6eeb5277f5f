package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Operands.LoraInputs;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/** Launches of products, and of what a mixture of experts needs around its own. */
final class Products {
    /** As common.kernel and experts.kernel have them. */
    static final int TILE = 64;

    static final int FEW = 8;

    private static final int SIMD = 32;
    static final int MAX_ROUTE_GROUPS = 1024;

    /**
     * Up to here a product with a transposed weight, of an expert's average number of rows with its own, is bound by
     * reading the weight and goes to the kernel for few rows.
     */
    private static final int FEW_ROWS = 32;

    /** Columns of a thread and of a group of {@link Kernel#FINISH}. */
    private static final int RUN = 8;

    private static final int FINISHED = RUN * Launch.GROUP;

    private static final long MAX_BATCHES = 65535;

    /** Rows up to which low-rank updates read the adapters that rows have, instead of being products with all of them. */
    static final int FEW_ADAPTED = 64;

    private final Launcher launcher;
    private final Weights weights;
    private final Project project;

    Products(Launcher launcher, Weights weights, Project project) {
        this.launcher = launcher;
        this.weights = weights;
        this.project = project;
    }

    /** A product, and whether it was added to {@code addends}, as {@link Launcher#product} takes them; what is not is left to do. */
    boolean matmul(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c) {
        if (Call.size(c) == 0) {
            return true;
        }
        if (Project.takes(op, a, b)) {
            project.run(Project.plain(c.dtype()), new Tensor[] {a, b}, new Tensor[] {c}, 0, 1);
            return addends.isEmpty();
        }
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor w = b;
        if (b.dtype().isQuantized()) {
            w = scratch.allocate(new Spec(a.dtype(), b.shape()));
            weights.dequantize(b, w);
        }
        boolean added = launcher.product(op, a, w, addends, c);
        if (!added && (addends.isEmpty() || !launcher.product(op, a, w, List.of(), c))) {
            dense(op, a, w, c);
        }
        scratch.release();
        return added || addends.isEmpty();
    }

    /** Scratch memory of a product. */
    static long workspace(Plain.MatMul op, Spec a, Spec b) {
        if (Project.takes(op, a, b)) {
            return ProjectBatch.workspace(a, b.shape().dim(0));
        }
        return b.dtype().isQuantized() ? new Spec(a.dtype(), b.shape()).bytes() : 0;
    }

    /** The same of a layer: that of its largest weight, and of its bias in the type of the result. */
    static long workspace(Layers.Linear op, Spec... in) {
        long together = Arrays.stream(in, 1, 1 + op.weights())
                .mapToLong(w -> Project.takes(op.product(), in[0], w) ? workspace(op.product(), in[0], w) : 0)
                .sum();
        long largest = Arrays.stream(in, 1, 1 + op.weights())
                .mapToLong(w -> workspace(op.product(), in[0], w)
                        + (op.bias() && op.to() != DType.F32
                                ? op.to().bytes() * w.shape().dim(0)
                                : 0))
                .max()
                .orElse(0);
        return Math.max(together, largest);
    }

    private void dense(Plain.MatMul op, Tensor a, Tensor b, Tensor c) {
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
        boolean together = op.weights() <= Project.TOGETHER;
        boolean projected = true;
        for (int i = 0; i < op.weights(); i++) {
            Tensor w = in[1 + i];
            together &= w.dtype() == in[1].dtype();
            projected &= Project.takes(op.product(), in[0], w);
        }
        int step = together ? op.weights() : 1;
        for (int i = 0; i < op.weights(); i += step) {
            if (projected) {
                project.run(op, in, out, i, i + step);
            } else if (in[0].dim(0) > (in[0].dtype() == DType.F32 ? FEW_ROWS : ProjectBatch.FEW_ROWS)
                    || in[1 + i].dtype().isQuantized()) {
                for (int weight = i; weight < i + step; weight++) {
                    product(op, in, out, weight);
                }
            } else {
                portable(op, in, out, i, i + step);
            }
        }
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
        List<Tensor> addends = any ? addends(op, in, y, weight) : List.of();
        if (any && launcher.product(op.product(), in[0], w, addends, y)) {
            if (op.fn() != Fn.IDENTITY) {
                finish(op, in, y, weight, false);
            }
        } else if (any && launcher.product(op.product(), in[0], w, List.of(), y)) {
            finish(op, in, y, weight, op.bias());
        } else {
            portable(op, dense, out, weight, weight + 1);
        }
        scratch.release();
    }

    /** What the maker's library may add to a product: the bias, and the residual where no function comes before it. */
    private List<Tensor> addends(Layers.Linear op, Tensor[] in, Tensor y, int weight) {
        List<Tensor> addends = new ArrayList<>();
        if (op.bias()) {
            addends.add(bias(in[op.biasOf(1 + weight)], y.dtype()));
        }
        if (op.residual() && op.fn() == Fn.IDENTITY) {
            addends.add(in[op.residualInput()]);
        }
        return addends;
    }

    /** A bias as the library adds it: in the type of the result. */
    private Tensor bias(Tensor bias, DType type) {
        if (bias.dtype() == type) {
            return bias;
        }
        Tensor rounded = launcher.scratch().allocate(new Spec(type, bias.shape()));
        new Call(launcher, Kernel.CAST)
                .tensors(bias, rounded)
                .i64(Call.size(bias))
                .each(Call.size(bias));
        return rounded;
    }

    /** What follows a product, as many rows at a time as a launch has groups for. */
    private void finish(Layers.Linear op, Tensor[] in, Tensor y, int weight, boolean bias) {
        long columns = y.dim(1);
        for (long from = 0; from < y.dim(0); from += MAX_BATCHES) {
            Shape part = Shape.of(Math.min(MAX_BATCHES, y.dim(0) - from), columns);
            Tensor rows = y.view(from * columns, part);
            Tensor own = bias ? in[op.biasOf(1 + weight)] : rows;
            Tensor residual = op.residual() ? in[op.residualInput()].view(from * columns, part) : rows;
            Call call = new Call(launcher, Kernel.FINISH);
            if (columns % RUN == 0 && Stream.of(rows, own, residual).allMatch(Call::aligned)) {
                call.define("WIDE", 1);
            }
            call.tensors(rows, own, residual)
                    .i32(columns)
                    .flag(bias)
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
        long tiles = Project.arguments(call.tensors(in[0]), op, in, out, from, to, tile);
        call.groups(tiles, Call.groups(rows, tile), 1);
    }

    void lora(Tensor[] inputs, Tensor z) {
        LoraInputs<Tensor> in = LoraInputs.of(inputs);
        long rows = z.dim(0);
        long adapters = in.a().dim(0);
        long rank = in.a().dim(1);
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor h = scratch.allocate(Spec.f32(rows, rank));
        new Call(launcher, Kernel.LORA_DOWN)
                .tensors(in.x(), in.a(), in.scales(), in.index(), h)
                .i32(adapters)
                .i32(rank)
                .i32(in.x().dim(1))
                .groups(Call.groups(rank, Launch.GROUP / SIMD), rows, 1);
        new Call(launcher, Kernel.LORA_UP)
                .tensors(in.y(), h, in.b(), in.index(), z)
                .i32(adapters)
                .i32(rank)
                .i32(z.dim(1))
                .groups(Call.groups(z.dim(1), Launch.GROUP), rows, 1);
        scratch.release();
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
