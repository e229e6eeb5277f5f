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
import java.util.Set;

/** Launches of matrix products and linear layers, LoRA, and mixture of experts. */
final class MatMuls {
    /** Constants of common.kernel and experts.kernel. */
    static final int TILE = 64;

    static final int SMALL_M = 8;

    /** Shared memory of the small-M kernels with SLAB 16, and with SLAB 8, which common.kernel chooses if this is above SHARED_LIMIT. */
    static final int SMALL_M_SHARED_BYTES = 34816;

    static final int SMALL_M_COMPACT_SHARED_BYTES = 18432;

    private static final int SIMD = 32;
    static final int MAX_ROUTE_GROUPS = 1024;

    /**
     * Products with a transposed weight and at most this many rows, or rows per expert on average, are bound by reading the weight and use
     * the small-M kernels.
     */
    private static final int SMALL_M_MAX_ROWS = 32;

    /** Columns per thread and per group of {@link Kernel#LINEAR_EPILOGUE}. */
    private static final int EPILOGUE_ELEMENTS = 8;

    private static final int EPILOGUE_COLUMNS_PER_GROUP = EPILOGUE_ELEMENTS * Launch.GROUP;

    private static final long MAX_GRID_YZ = 65535;

    /** Rows up to which LoRA reads the adapters that are in use, instead of multiplying with all of them. */
    static final int LORA_TABLE_MAX_ROWS = 64;

    private final Launcher launcher;
    private final QuantizedWeights weights;
    private final Gemv gemv;

    MatMuls(Launcher launcher, QuantizedWeights weights, Gemv gemv) {
        this.launcher = launcher;
        this.weights = weights;
        this.gemv = gemv;
    }

    /** Computes a product. Returns false if {@code addends}, as {@link Launcher#matmul} defines them, still have to be added. */
    boolean matmul(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c) {
        if (KernelCall.size(c) == 0) {
            return true;
        }
        if (gemv.supports(op, a, b)) {
            gemv.run(Gemv.matmulOnly(c.dtype()), new Tensor[] {a, b}, new Tensor[] {c}, 0, 1);
            return addends.isEmpty();
        }
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor w = b;
        if (b.dtype().isQuantized()) {
            w = scratch.allocate(new Spec(a.dtype(), b.shape()));
            weights.dequantize(b, w);
        }
        boolean added = launcher.matmul(op, a, w, addends, c);
        if (!added && (addends.isEmpty() || !launcher.matmul(op, a, w, List.of(), c))) {
            dense(op, a, w, c);
        }
        scratch.release();
        return added || addends.isEmpty();
    }

    /** Scratch memory of a product on a device with these siblings. */
    static long workspace(Set<Sibling> siblings, Plain.MatMul op, Spec a, Spec b) {
        if (siblings.contains(Sibling.MMA) && Gemv.supports(op, a, b)) {
            return SmallBatchGemm.workspace(a, b.shape().dim(0));
        }
        return b.dtype().isQuantized() ? new Spec(a.dtype(), b.shape()).bytes() : 0;
    }

    /** Scratch memory of a linear layer: that of its largest weight, and of its bias in the type of the result. */
    static long workspace(Set<Sibling> siblings, Layers.Linear op, Spec... in) {
        long oneLaunch = Arrays.stream(in, 1, 1 + op.weights())
                .filter(w -> siblings.contains(Sibling.MMA) && Gemv.supports(op.product(), in[0], w))
                .mapToLong(w -> workspace(siblings, op.product(), in[0], w))
                .sum();
        long largest = Arrays.stream(in, 1, 1 + op.weights())
                .mapToLong(w -> workspace(siblings, op.product(), in[0], w)
                        + (op.bias() && op.to() != DType.F32
                                ? op.to().bytes() * w.shape().dim(0)
                                : 0))
                .max()
                .orElse(0);
        return Math.max(oneLaunch, largest);
    }

    private void dense(Plain.MatMul op, Tensor a, Tensor b, Tensor c) {
        long rows = c.dim(-2);
        long columns = c.dim(-1);
        long batches = KernelCall.size(c) / (rows * columns);
        long k = a.dim(op.transposeA() ? -2 : -1);
        boolean smallM = rows <= SMALL_M_MAX_ROWS && !op.transposeA() && op.transposeB();
        KernelCall call = new KernelCall(launcher, smallM ? Kernel.MATMUL_SMALL_M : Kernel.MATMUL)
                .tensors(a, b, c)
                .i32(batches)
                .i32(rows)
                .i32(columns)
                .i32(k);
        if (smallM) {
            call.groups(
                    KernelCall.groups(columns, SMALL_M),
                    KernelCall.groups(rows, SMALL_M),
                    Math.min(batches, MAX_GRID_YZ));
        } else {
            call.flag(op.transposeA())
                    .flag(op.transposeB())
                    .groups(
                            KernelCall.groups(columns, TILE),
                            KernelCall.groups(rows, TILE),
                            Math.min(batches, MAX_GRID_YZ));
        }
    }

    /** Multiplies weights of one type in one launch, up to the number of kernel parameters; others separately. */
    void linear(Layers.Linear op, Tensor[] in, Tensor[] out) {
        boolean oneLaunch = op.weights() <= Gemv.MAX_WEIGHTS;
        boolean usesGemv = true;
        for (int i = 0; i < op.weights(); i++) {
            Tensor w = in[1 + i];
            oneLaunch &= w.dtype() == in[1].dtype();
            usesGemv &= gemv.supports(op.product(), in[0], w);
        }
        int step = oneLaunch ? op.weights() : 1;
        for (int i = 0; i < op.weights(); i += step) {
            if (usesGemv) {
                gemv.run(op, in, out, i, i + step);
            } else if (in[0].dim(0) > (in[0].dtype() == DType.F32 ? SMALL_M_MAX_ROWS : SmallBatchGemm.GEMV_MAX_ROWS)
                    || in[1 + i].dtype().isQuantized()) {
                for (int weight = i; weight < i + step; weight++) {
                    libraryLinear(op, in, out, weight);
                }
            } else {
                tiledLinear(op, in, out, i, i + step);
            }
        }
    }

    /** One weight by the vendor library and the epilogue kernel; without a library by the portable kernels. */
    private void libraryLinear(Layers.Linear op, Tensor[] in, Tensor[] out, int weight) {
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor[] dense = in.clone();
        if (in[1 + weight].dtype().isQuantized()) {
            dense[1 + weight] = scratch.allocate(new Spec(in[0].dtype(), in[1 + weight].shape()));
            weights.dequantize(in[1 + weight], dense[1 + weight]);
        }
        Tensor y = out[weight];
        Tensor w = dense[1 + weight];
        boolean any = KernelCall.size(y) > 0;
        List<Tensor> addends = any ? addends(op, in, y, weight) : List.of();
        if (any && launcher.matmul(op.product(), in[0], w, addends, y)) {
            if (op.fn() != Fn.IDENTITY) {
                epilogue(op, in, y, weight, false);
            }
        } else if (any && launcher.matmul(op.product(), in[0], w, List.of(), y)) {
            epilogue(op, in, y, weight, op.bias());
        } else {
            tiledLinear(op, dense, out, weight, weight + 1);
        }
        scratch.release();
    }

    /** What the vendor library may add to a product: the bias, and the residual if no function precedes it. */
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

    /** The bias in the type of the result, as the library needs it. */
    private Tensor bias(Tensor bias, DType type) {
        if (bias.dtype() == type) {
            return bias;
        }
        Tensor rounded = launcher.scratch().allocate(new Spec(type, bias.shape()));
        new KernelCall(launcher, Kernel.CAST)
                .tensors(bias, rounded)
                .i64(KernelCall.size(bias))
                .elementsUnrolled(KernelCall.size(bias));
        return rounded;
    }

    /** Launches the epilogue kernel, in parts if there are more rows than a grid has groups. */
    private void epilogue(Layers.Linear op, Tensor[] in, Tensor y, int weight, boolean bias) {
        long columns = y.dim(1);
        for (long from = 0; from < y.dim(0); from += MAX_GRID_YZ) {
            Shape part = Shape.of(Math.min(MAX_GRID_YZ, y.dim(0) - from), columns);
            Tensor rows = y.view(from * columns, part);
            KernelCall call = new KernelCall(launcher, Kernel.LINEAR_EPILOGUE).tensors(rows);
            boolean vectorized = columns % EPILOGUE_ELEMENTS == 0 && KernelCall.aligned(rows);
            if (bias) {
                Tensor own = in[op.biasOf(1 + weight)];
                vectorized &= KernelCall.aligned(own);
                call.tensors(own);
            } else {
                call.absent(rows.dtype());
            }
            if (op.residual()) {
                Tensor residual = in[op.residualInput()].view(from * columns, part);
                vectorized &= KernelCall.aligned(residual);
                call.tensors(residual);
            } else {
                call.absent(rows.dtype());
            }
            (vectorized ? call.define("VECTORIZED", 1) : call)
                    .i32(columns)
                    .flag(bias)
                    .i32(Dispatch.code(op.fn()))
                    .flag(op.residual())
                    .groups(KernelCall.groups(columns, EPILOGUE_COLUMNS_PER_GROUP), part.dim(0), 1);
        }
    }

    private void tiledLinear(Layers.Linear op, Tensor[] in, Tensor[] out, int from, int to) {
        long rows = in[0].dim(0);
        boolean smallM = rows <= SMALL_M_MAX_ROWS;
        int tile = smallM ? SMALL_M : TILE;
        KernelCall call = new KernelCall(launcher, smallM ? Kernel.LINEAR_SMALL_M : Kernel.LINEAR);
        long tiles = Gemv.addArguments(call.tensors(in[0]), op, in, out, from, to, tile);
        call.groups(tiles, KernelCall.groups(rows, tile), 1);
    }

    void lora(Tensor[] inputs, Tensor z) {
        LoraInputs<Tensor> in = LoraInputs.of(inputs);
        long rows = z.dim(0);
        long adapters = in.a().dim(0);
        long rank = in.a().dim(1);
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor h = scratch.allocate(Spec.f32(rows, rank));
        new KernelCall(launcher, Kernel.LORA_DOWN)
                .tensors(in.x(), in.a(), in.scales(), in.index(), h)
                .i32(adapters)
                .i32(rank)
                .i32(in.x().dim(1))
                .groups(KernelCall.groups(rank, Launch.GROUP / SIMD), rows, 1);
        new KernelCall(launcher, Kernel.LORA_UP)
                .tensors(in.y(), h, in.b(), in.index(), z)
                .i32(adapters)
                .i32(rank)
                .i32(z.dim(1))
                .groups(KernelCall.groups(z.dim(1), Launch.GROUP), rows, 1);
        scratch.release();
    }

    void expertMatmul(boolean transposeB, Tensor x, Tensor w, Tensor offsets, Tensor y) {
        long experts = w.dim(0);
        long rows = y.dim(0);
        long columns = y.dim(1);
        boolean smallM = transposeB && rows <= SMALL_M_MAX_ROWS * experts;
        int tile = smallM ? SMALL_M : TILE;
        long slots = rows / tile + experts;
        boolean byRow = rows <= slots;
        KernelCall call = new KernelCall(launcher, smallM ? Kernel.EXPERT_MATMUL_SMALL_M : Kernel.EXPERT_MATMUL)
                .tensors(x, w, offsets, y)
                .i32(experts)
                .i32(columns)
                .i32(x.dim(1))
                .flag(byRow);
        if (!smallM) {
            call.flag(transposeB);
        }
        call.groups(KernelCall.groups(columns, tile), byRow ? rows : slots, Math.min(experts, 1));
    }

    /** (a, b, offsets) -> y[E, rows, columns]. */
    void expertOuter(Tensor[] in, Tensor y) {
        new KernelCall(launcher, Kernel.EXPERT_OUTER)
                .tensors(in)
                .tensors(y)
                .i32(y.dim(0))
                .i32(y.dim(1))
                .i32(y.dim(2))
                .groups(
                        KernelCall.groups(y.dim(2), TILE),
                        KernelCall.groups(y.dim(1), TILE),
                        Math.min(y.dim(0), MAX_GRID_YZ));
    }

    void group(int experts, Tensor chosen, Tensor[] out) {
        new KernelCall(launcher, Kernel.GROUP)
                .tensors(chosen)
                .tensors(out)
                .i32(KernelCall.size(chosen))
                .i32(chosen.shape().last())
                .groups(experts + 1L);
    }

    void route(Routing.Route op, Tensor scores, Tensor chosen) {
        if (op.groups() > MAX_ROUTE_GROUPS) {
            throw new DeviceException("Route: " + op.groups() + " groups are more than " + MAX_ROUTE_GROUPS);
        }
        new KernelCall(launcher, Kernel.ROUTE)
                .tensors(scores, chosen)
                .i32(scores.dim(1))
                .i32(op.k())
                .i32(op.groups())
                .i32(op.kept())
                .i32(op.votes())
                .groups(scores.dim(0));
    }
}
