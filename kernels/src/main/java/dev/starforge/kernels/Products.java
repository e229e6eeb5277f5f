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

    private static final int SIMD = 32;
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

    /** The same of weights of 16 bits, above which the maker's library reads them as fast. */
    private static final int DENSE_ROWS = 8;

    private static final int MOST_COLUMNS = 32;

    /** Rows up to which low-rank updates read the adapters that rows have, instead of being products with all of them. */
    static final int FEW_ADAPTED = 64;

    /** Groups of {@link Kernel#PROJECT} that a multiprocessor holds: more where there are tiles for them, and registers. */
    private static final int FEW_RESIDENT = 2;

    private static final int MANY_RESIDENT = 3;

    /** As project.kernel has them: columns of a turn of all simdgroups, numbers of x in shared memory, numbers between its rows. */
    private static final int TURN = 512;

    private static final long X_NUMBERS = 2 * 8448;
    private static final long X_PAD = 16;

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
                && a.shape().dim(0) <= (w == a.dtype() ? DENSE_ROWS : PROJECTED_ROWS / (a.dtype() == DType.F32 ? 4 : 1))
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
        Ring ring = ring(w, x.dim(1), slots(Math.min(rows, eights * (8L / parts)), parts), tiles(out, from, to));
        Call call = new Call(launcher, Kernel.PROJECT)
                .define("DEPTH", ring.depth)
                .define("MMA", Variant.spelled(mma))
                .define("NT", eights)
                .define("PARTS", parts)
                .unaligned("UNALIGNED_X", x);
        if (ring.whole) {
            call.define("RESIDENT", ring.resident);
            call.define("WHOLE", 1);
        }
        if (w.isQuantized()) {
            call.define("FORMAT", w.name());
            call.define("CODE_PARTS", Weights.isNf4(w) && x.dtype() == DType.F32 ? 3 : 1);
        }
        if (!Arrays.stream(in, 1 + from, 1 + to).allMatch(Call::aligned)) {
            call.define("UNALIGNED_W", 1);
        }
        long tiles = arguments(call, op, in, out, from, to, Tiles.ROWS);
        long turns = Call.groups(tiles, (long) ring.resident * launcher.multiprocessors());
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
            } else if (in[0].dim(0) > (in[0].dtype() == DType.F32 ? FEW_ROWS : DENSE_ROWS)
                    || in[1 + i].dtype().isQuantized()) {
                for (int weight = i; weight < i + step; weight++) {
                    product(op, in, out, weight);
                }
            } else {
                portable(op, in, out, i, i + step);
            }
        }
    }

    /**
     * How {@link Kernel#PROJECT} reads weights.
     *
     * @param depth pieces on their way to a lane
     * @param resident groups that a multiprocessor holds
     * @param whole whether all of x fits into shared memory and all lanes have as many pieces, a multiple of depth
     */
    private record Ring(int depth, int resident, boolean whole) {}

    /** Few tiles, and so few groups: more pieces each. Many: more groups, so that some compute while others wait. */
    private Ring ring(DType w, long terms, long slots, long tiles) {
        boolean scalesOfSix = w == DType.Q4_K || w == DType.Q5_K;
        boolean few = scalesOfSix || tiles <= (long) FEW_RESIDENT * launcher.multiprocessors();
        int most = scalesOfSix ? 4 : few || isFourBits(w) ? 6 : w.isQuantized() ? 4 : 3;
        int depth = depth(most, terms);
        boolean whole = terms % ((long) depth * TURN) == 0 && slots * (terms + X_PAD) <= X_NUMBERS;
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

    private static long tiles(Tensor[] out, int from, int to) {
        long tiles = 0;
        for (int i = from; i < to; i++) {
            tiles += Call.groups(out[i].dim(1), Tiles.ROWS);
        }
        return tiles;
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

    /** (y, x, a, b, scales, index) -> z. */
    void lora(Tensor[] in, Tensor z) {
        long rows = z.dim(0);
        long adapters = in[2].dim(0);
        long rank = in[2].dim(1);
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor h = scratch.allocate(Spec.f32(rows, rank));
        new Call(launcher, Kernel.LORA_DOWN)
                .tensors(in[1], in[2], in[4], in[5], h)
                .i32(adapters)
                .i32(rank)
                .i32(in[1].dim(1))
                .groups(Call.groups(rank, Launch.GROUP / SIMD), rows, 1);
        new Call(launcher, Kernel.LORA_UP)
                .tensors(in[0], h, in[3], in[5], z)
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
