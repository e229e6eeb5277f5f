package dev.starforge.cuda;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Broadcast;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import dev.starforge.tensor.op.Training;
import java.util.Arrays;
import java.util.List;

/**
 * From an operation to launches: which kernel, which arguments in the order of its parameters, how many groups. Group
 * counts depend on shapes alone, so that a captured step fits any data.
 */
final class Dispatch {
    /** Partial sums of a norm; see adamw.cu. */
    static final int NORM_PARTS = 512;

    /** As common.cuh, rows.cu and experts.cu have them. */
    static final int TILE = 64;

    static final int FEW = 8;
    static final int MAX_RANK = 8;
    static final int MAX_ROUTE_GROUPS = 1024;

    private static final int COLUMNS = 32;

    /**
     * Up to here a product with a transposed weight, of an expert's average number of rows with its own, is bound by
     * reading the weight and goes to the kernel for few rows.
     */
    private static final int FEW_ROWS = 32;

    private static final long MAX_BATCHES = 65535;

    private final Launcher launch;
    private final long normParts;

    /** {@code normParts} points to {@link #NORM_PARTS} doubles. */
    Dispatch(Launcher launch, long normParts) {
        this.launch = launch;
        this.normParts = normParts;
    }

    void run(Op op, Tensor[] in, Tensor[] out) {
        if (out.length > 0 && Arrays.stream(out).allMatch(tensor -> size(tensor) == 0)) {
            return;
        }
        switch (op) {
            case Plain.Add o -> broadcast(Kernel.ADD, o, in, out[0]);
            case Plain.Mul o -> broadcast(Kernel.MUL, o, in, out[0]);
            case Plain.Affine o ->
                elementwise(Kernel.AFFINE, out[0], in[0], out[0])
                        .f32(o.scale())
                        .f32(o.shift())
                        .elements(size(out[0]));
            case Plain.Map o ->
                elementwise(Kernel.MAP, out[0], in[0], out[0]).i32(code(o.fn())).elements(size(out[0]));
            case Plain.MapGrad o ->
                elementwise(Kernel.MAP_GRAD, out[0], in[0], in[1], out[0])
                        .i32(code(o.fn()))
                        .elements(size(out[0]));
            case Plain.Cast o ->
                elementwise(Kernel.CAST, out[0], in[0], out[0])
                        .i32(code(in[0].dtype()))
                        .i32(code(o.to()))
                        .elements(size(out[0]));
            case Plain.Fill o ->
                elementwise(Kernel.FILL, out[0], out[0]).f32(o.value()).elements(size(out[0]));
            case Plain.MatMul o -> matmul(o, in[0], in[1], out[0]);
            case Plain.Permute o -> permute(o.axes(), in[0], out[0]);
            case Plain.Sum o -> sum(o.over(), in[0], out[0]);
            case Plain.Pick o ->
                elementwise(Kernel.PICK, out[0], in[0], in[1], out[0])
                        .i64(in[0].shape().last())
                        .i64(out[0].shape().last())
                        .elements(size(out[0]));
            case Plain.Unpick o ->
                elementwise(Kernel.UNPICK, out[0], in[0], in[1], out[0])
                        .i64(o.width())
                        .i64(in[0].shape().last())
                        .elements(size(out[0]));
            case Plain.Columns o -> columns(Kernel.COLUMNS, o.from(), in[0], out[0]);
            case Plain.Pad o -> columns(Kernel.PAD, o.from(), in[0], out[0]);
            case Plain.Gather o ->
                elementwise(Kernel.GATHER, out[0], in[0], in[1], out[0])
                        .i64(width(out[0]))
                        .i64(in[0].dim(0))
                        .i32(code(in[0].dtype()))
                        .elements(size(out[0]));
            case Plain.ScatterAdd o -> scatterAdd(o.height(), in[0], in[1], out[0]);
            case Plain.Slice o ->
                launch.copy(
                        CudaMemory.pointer(in[0])
                                + o.from() * width(in[0]) * in[0].dtype().bytes(),
                        CudaMemory.pointer(out[0]),
                        out[0].bytes());
            case Plain.Concat o -> concat(in, out[0]);
            case Plain.Store o ->
                launch.kernel(Kernel.STORE)
                        .tensors(in)
                        .i64(size(in[1]))
                        .i64(width(in[2]))
                        .i64(in[0].dim(0))
                        .i32(code(in[0].dtype()))
                        .groups(size(in[2]) == 0 ? 0 : size(in[1]), 1, 1);
            case Routing.Route o -> route(o, in[0], out[0]);
            case Routing.Group o ->
                launch.kernel(Kernel.GROUP)
                        .tensors(in[0])
                        .tensors(out)
                        .i32(size(in[0]))
                        .i32(in[0].shape().last())
                        .groups(o.experts() + 1L, 1, 1);
            case Routing.ExpertMatMul o -> expertMatmul(o.transposeB(), in[0], in[1], in[2], out[0]);
            case Routing.ExpertOuter o ->
                launch.kernel(Kernel.EXPERT_OUTER)
                        .tensors(in)
                        .tensors(out)
                        .i32(out[0].dim(0))
                        .i32(out[0].dim(1))
                        .i32(out[0].dim(2))
                        .groups(
                                groups(out[0].dim(2), TILE),
                                groups(out[0].dim(1), TILE),
                                Math.min(out[0].dim(0), MAX_BATCHES));
            case Plain.Softmax o -> rows(Kernel.SOFTMAX, in[0], in[0], out[0]);
            case Plain.SoftmaxGrad o -> rows(Kernel.SOFTMAX_GRAD, in[0], in[0], in[1], out[0]);
            case Plain.LogSumExp o -> rows(Kernel.LOG_SUM_EXP, in[0], in[0], out[0]);
            case Plain.Argmax o ->
                launch.kernel(Kernel.ARGMAX)
                        .tensors(in[0], out[0])
                        .i32(in[0].shape().last())
                        .groups(in[0].shape().rows(), 1, 1);
            case Plain.Mask o ->
                elementwise(Kernel.MASK, out[0], in[0], in[1], in[2], out[0])
                        .i32(size(in[2]))
                        .i64(in[3].dim(1) * o.block())
                        .i64(in[0].shape().last())
                        .i32(o.window())
                        .elements(size(out[0]));
            case Plain.Norm o -> norm(in, out[0]);
            case Plain.AdamW o ->
                elementwise(Kernel.ADAMW, in[0], in)
                        .f32(1 - o.beta1())
                        .f32(1 - o.beta2())
                        .f32(o.eps())
                        .f32(o.weightDecay())
                        .f32(o.maxNorm())
                        .elements(size(in[0]));
            case Decoding.Sample o ->
                launch.kernel(Kernel.SAMPLE)
                        .tensors(in)
                        .tensors(out)
                        .i32(in[0].dim(1))
                        .i32(in[5].dim(1))
                        .i32(in[7].dim(1))
                        .i32(o.top())
                        .groups(in[0].dim(0), 1, 1);
            case Training.Accumulate o -> broadcast(Kernel.ADD, o, in, in[0]);
            case Training.Dropout o ->
                elementwise(Kernel.DROPOUT, out[0], in[0], in[1], in[2], in[3], out[0])
                        .i64(in[0].shape().last())
                        .i32(o.site())
                        .f32(o.rate())
                        .f32(o.scale())
                        .elements(size(out[0]));
            case Training.Noise o ->
                elementwise(Kernel.NOISE, out[0], in[0], in[1], in[2], in[3], in[4], out[0])
                        .i64(in[0].shape().last())
                        .i32(o.site())
                        .elements(size(out[0]));
            case Training.AdamW8 o ->
                elementwise(Kernel.ADAMW8, in[0], in)
                        .i64(Training.AdamW8.blocks(in[0].shape()))
                        .f32(1 - o.beta1())
                        .f32(1 - o.beta2())
                        .f32(o.eps())
                        .f32(o.weightDecay())
                        .f32(o.maxNorm())
                        .groups(Training.AdamW8.blocks(in[0].shape()), 1, 1);
            case Fused.LayerNorm o ->
                launch.kernel(Kernel.LAYER_NORM)
                        .tensors(in)
                        .tensors(out)
                        .i64(in[0].shape().last())
                        .f32(o.eps())
                        .groups(in[0].shape().rows(), 1, 1);
            case Fused.LayerNormGrad o -> layerNormGrad(in, out);
            case Fused.RmsNorm o ->
                launch.kernel(Kernel.RMS_NORM)
                        .tensors(in)
                        .tensors(out)
                        .i64(in[0].shape().last())
                        .f32(o.eps())
                        .groups(in[0].shape().rows(), 1, 1);
            case Fused.RmsNormGrad o -> rmsNormGrad(in, out);
            case Fused.Rope o -> rope(o, in, out[0]);
            case Fused.Gated o ->
                elementwise(Kernel.GATED, out[0], in[0], in[1], out[0])
                        .i32(code(o.fn()))
                        .elements(size(out[0]));
            case Fused.GatedGrad o ->
                elementwise(Kernel.GATED_GRAD, out[0], in[0], in[1], in[2], out[0], out[1])
                        .i32(code(o.fn()))
                        .elements(size(out[0]));
            case Fused.CrossEntropy o -> rows(Kernel.CROSS_ENTROPY, in[0], in[0], in[1], in[2], out[0], out[1]);
            case Fused.CrossEntropyGrad o ->
                rows(Kernel.CROSS_ENTROPY_GRAD, in[0], in[0], in[1], in[2], in[3], in[4], out[0]);
            case Fused.Attention o ->
                heads(launch.kernel(Kernel.attention(in[1].dtype())).tensors(in).tensors(out), in[0], in[1])
                        .i32(in[5].dim(0))
                        .i32(in[5].dim(1))
                        .i32(o.block())
                        .i32(o.window())
                        .f32(o.scale())
                        .groups(in[0].dim(0), in[0].dim(1), 1);
            case Fused.AttentionGrad o -> attentionGrad(o, in, out);
        }
    }

    private static long size(Tensor tensor) {
        return tensor.shape().size();
    }

    /** Elements below the first dimension. */
    private static long width(Tensor tensor) {
        return tensor.dim(0) == 0 ? 0 : size(tensor) / tensor.dim(0);
    }

    /** Begins a kernel whose scalars start with the number of elements. */
    private Launcher elementwise(Kernel kernel, Tensor sized, Tensor... tensors) {
        return launch.kernel(kernel).tensors(tensors).i64(size(sized));
    }

    /** Runs a kernel of one group for each row, whose only scalar is the width of {@code x}. */
    private void rows(Kernel kernel, Tensor x, Tensor... tensors) {
        launch.kernel(kernel)
                .tensors(tensors)
                .i64(x.shape().last())
                .groups(x.shape().rows(), 1, 1);
    }

    private void broadcast(Kernel kernel, Op op, Tensor[] in, Tensor out) {
        Broadcast broadcast = Broadcast.of(op, in[0].shape(), in[1].shape());
        int code = switch (broadcast) {
            case SAME -> 0;
            case ROW -> 1;
            case COLUMN -> 2;
        };
        elementwise(kernel, out, in[0], in[1], out)
                .i32(code)
                .i64(broadcast == Broadcast.COLUMN ? in[0].shape().last() : size(in[1]))
                .elements(size(out));
    }

    private void matmul(Plain.MatMul op, Tensor a, Tensor b, Tensor c) {
        long rows = c.dim(-2);
        long columns = c.dim(-1);
        if (rows * columns == 0) {
            return;
        }
        long batches = size(c) / (rows * columns);
        long terms = a.dim(op.transposeA() ? -2 : -1);
        boolean few = rows <= FEW_ROWS && !op.transposeA() && op.transposeB();
        launch.kernel(few ? Kernel.matmulFew(b.dtype()) : Kernel.matmul(b.dtype()))
                .tensors(a, b, c)
                .i32(batches)
                .i32(rows)
                .i32(columns)
                .i32(terms);
        if (few) {
            launch.groups(groups(columns, FEW), groups(rows, FEW), Math.min(batches, MAX_BATCHES));
        } else {
            launch.i32(op.transposeA() ? 1 : 0)
                    .i32(op.transposeB() ? 1 : 0)
                    .groups(groups(columns, TILE), groups(rows, TILE), Math.min(batches, MAX_BATCHES));
        }
    }

    private static long groups(long items, long each) {
        return (items + each - 1) / each;
    }

    private void expertMatmul(boolean transposeB, Tensor x, Tensor w, Tensor offsets, Tensor y) {
        long experts = w.dim(0);
        long rows = y.dim(0);
        long columns = y.dim(1);
        boolean few = transposeB && rows <= FEW_ROWS * experts;
        int tile = few ? FEW : TILE;
        long slots = rows / tile + experts;
        boolean byRow = rows <= slots;
        launch.kernel(few ? Kernel.expertMatmulFew(w.dtype()) : Kernel.expertMatmul(w.dtype()))
                .tensors(x, w, offsets, y)
                .i32(experts)
                .i32(columns)
                .i32(x.dim(1))
                .i32(byRow ? 1 : 0);
        if (!few) {
            launch.i32(transposeB ? 1 : 0);
        }
        launch.groups(groups(columns, tile), byRow ? rows : slots, Math.min(experts, 1));
    }

    private void route(Routing.Route op, Tensor scores, Tensor chosen) {
        if (op.groups() > MAX_ROUTE_GROUPS) {
            throw new DeviceException("Route: " + op.groups() + " groups are more than " + MAX_ROUTE_GROUPS);
        }
        launch.kernel(Kernel.ROUTE)
                .tensors(scores, chosen)
                .i32(scores.dim(1))
                .i32(op.k())
                .i32(op.groups())
                .i32(op.kept())
                .i32(op.votes())
                .groups(scores.dim(0), 1, 1);
    }

    /** One group for each row of whichever there are fewer: of x, or of y. */
    private void scatterAdd(long height, Tensor x, Tensor rows, Tensor y) {
        boolean byHeight = height <= size(rows);
        launch.zero(y);
        launch.kernel(Kernel.SCATTER_ADD)
                .tensors(x, rows, y)
                .i64(size(rows))
                .i64(width(x))
                .i64(height)
                .i32(byHeight ? 1 : 0)
                .groups(size(x) == 0 ? 0 : Math.min(height, size(rows)), 1, 1);
    }

    private void columns(Kernel kernel, long from, Tensor x, Tensor y) {
        elementwise(kernel, y, x, y)
                .i64(from)
                .i64(x.shape().last())
                .i64(y.shape().last())
                .elements(size(y));
    }

    private void permute(List<Integer> axes, Tensor x, Tensor y) {
        int rank = axes.size();
        if (rank > MAX_RANK) {
            throw new DeviceException("Permute: " + x + " has more than " + MAX_RANK + " dimensions");
        }
        Shape from = x.shape();
        long[] strides = new long[rank];
        long stride = 1;
        for (int axis = rank - 1; axis >= 0; axis--) {
            strides[axis] = stride;
            stride *= from.dim(axis);
        }
        elementwise(Kernel.PERMUTE, y, x, y).i64(rank);
        for (int i = 0; i < MAX_RANK; i++) {
            launch.i64(i < rank ? y.dim(i) : 0);
        }
        for (int i = 0; i < rank; i++) {
            launch.i64(strides[axes.get(i)]);
        }
        launch.elements(size(y));
    }

    private void sum(Plain.Sum.Over over, Tensor x, Tensor y) {
        switch (over) {
            case LAST -> rows(Kernel.SUM_LAST, x, x, y);
            case LEADING ->
                launch.kernel(Kernel.SUM_LEADING)
                        .tensors(x, y)
                        .i64(x.shape().rows())
                        .i64(x.shape().last())
                        .groups(groups(size(y), COLUMNS), 1, 1);
        }
    }

    private void concat(Tensor[] parts, Tensor y) {
        long to = CudaMemory.pointer(y);
        for (Tensor part : parts) {
            launch.copy(CudaMemory.pointer(part), to, part.bytes());
            to += part.bytes();
        }
    }

    private void norm(Tensor[] in, Tensor y) {
        for (int i = 0; i < in.length; i++) {
            launch.kernel(Kernel.NORM_PART)
                    .tensors(in[i])
                    .i64(normParts)
                    .i64(size(in[i]))
                    .i32(i == 0 ? 1 : 0)
                    .groups(NORM_PARTS, 1, 1);
        }
        launch.kernel(Kernel.NORM)
                .i64(normParts)
                .tensors(y)
                .i32(in.length == 0 ? 0 : NORM_PARTS)
                .groups(1, 1, 1);
    }

    /** (x, w, b, mean, rstd, dy) -> dx[, dw, db]. */
    private void layerNormGrad(Tensor[] in, Tensor[] out) {
        rows(Kernel.LAYER_NORM_GRAD, in[0], in[0], in[1], in[3], in[4], in[5], out[0]);
        if (out.length > 1) {
            launch.kernel(Kernel.LAYER_NORM_GRAD_WEIGHTS)
                    .tensors(in[0], in[3], in[4], in[5], out[1], out[2])
                    .i64(in[0].shape().rows())
                    .i64(in[0].shape().last())
                    .groups(groups(in[0].shape().last(), COLUMNS), 1, 1);
        }
    }

    /** (x, w, rstd, dy) -> dx[, dw]. */
    private void rmsNormGrad(Tensor[] in, Tensor[] out) {
        rows(Kernel.RMS_NORM_GRAD, in[0], in[0], in[1], in[2], in[3], out[0]);
        if (out.length > 1) {
            launch.kernel(Kernel.RMS_NORM_GRAD_WEIGHTS)
                    .tensors(in[0], in[2], in[3], out[1])
                    .i64(in[0].shape().rows())
                    .i64(in[0].shape().last())
                    .groups(groups(in[0].shape().last(), COLUMNS), 1, 1);
        }
    }

    private void rope(Fused.Rope op, Tensor[] in, Tensor y) {
        long heads = in[0].dim(1);
        long d = in[0].dim(2);
        long half = size(in[2]);
        long work = in[0].dim(0) * heads * (d - half);
        launch.kernel(Kernel.ROPE)
                .tensors(in[0], in[1], in[2], y)
                .i64(work)
                .i32(heads)
                .i32(d)
                .i32(half)
                .f32(op.magnitude())
                .i32(op.inverse() ? 1 : 0)
                .elements(work);
    }

    private static Launcher heads(Launcher launch, Tensor q, Tensor k) {
        return launch.i32(q.dim(1)).i32(k.dim(1)).i32(q.dim(2));
    }

    /** (q, k, v, starts, positions, tables, y, lse, dy) -> dq, dk, dv. */
    private void attentionGrad(Fused.AttentionGrad op, Tensor[] in, Tensor[] out) {
        long sequences = in[5].dim(0);
        long tableWidth = in[5].dim(1);
        heads(launch.kernel(Kernel.ATTENTION_GRAD_QUERY).tensors(in).tensors(out[0]), in[0], in[1])
                .i32(sequences)
                .i32(tableWidth)
                .i32(op.block())
                .i32(op.window())
                .f32(op.scale())
                .groups(in[0].dim(0), in[0].dim(1), 1);
        launch.zero(out[1]);
        launch.zero(out[2]);
        heads(launch.kernel(Kernel.ATTENTION_GRAD_KEY_VALUE).tensors(in).tensors(out[1], out[2]), in[0], in[1])
                .i32(tableWidth)
                .i32(op.block())
                .i32(op.window())
                .f32(op.scale())
                .groups(sequences * tableWidth * op.block(), in[1].dim(1), 1);
    }

    /** As common.cuh numbers element types. */
    static int code(DType type) {
        return switch (type) {
            case F32 -> 0;
            case F16 -> 1;
            case BF16 -> 2;
            case I32 -> 3;
            default -> throw new DeviceException("cuda: no kernel reads or writes " + type);
        };
    }

    /** As common.cuh numbers functions. */
    static int code(Fn fn) {
        return switch (fn) {
            case EXP -> 0;
            case RSQRT -> 1;
            case RECIPROCAL -> 2;
            case SIGMOID -> 3;
            case SIN -> 4;
            case COS -> 5;
            case SILU -> 6;
            case GELU_TANH -> 7;
        };
    }
}
