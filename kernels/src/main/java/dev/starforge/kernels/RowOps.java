package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Operands.LayerNormGradInputs;
import dev.starforge.tensor.op.Plain;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/** Launches of rows.kernel and of norms. */
final class RowOps {
    /** As in rows.kernel. */
    static final int MAX_RANK = 8;

    /** Rows that a group sums, as in common.kernel. */
    static final int ROWS_PER_GROUP = 256;

    /** Resident groups of a norm per multiprocessor. */
    private static final int GROUPS_PER_SM = 4;

    /** The least number of groups of a norm's gradient if there are enough rows, and the most rows per group. */
    private static final long MIN_GROUPS = 1024;

    private static final long MAX_ROWS_PER_GROUP = 32;

    private final Launcher launcher;

    RowOps(Launcher launcher) {
        this.launcher = launcher;
    }

    void gather(Tensor table, Tensor rows, Tensor y) {
        new KernelCall(launcher, Kernel.GATHER)
                .tensors(table, rows, y)
                .i64(KernelCall.size(y))
                .i64(KernelCall.width(y))
                .i64(table.dim(0))
                .elements(KernelCall.size(y));
    }

    void store(Tensor cache, Tensor rows, Tensor x) {
        new KernelCall(launcher, Kernel.STORE)
                .tensors(cache, rows, x)
                .i64(KernelCall.size(rows))
                .i64(KernelCall.width(x))
                .i64(cache.dim(0))
                .groups(KernelCall.size(x) == 0 ? 0 : KernelCall.size(rows));
    }

    /** (quants, scales, rows, x). */
    void storeInt8(Tensor[] in) {
        new KernelCall(launcher, Kernel.STORE_INT8)
                .tensors(in)
                .i64(KernelCall.size(in[2]))
                .i32(in[0].dim(1))
                .i32(in[0].dim(2))
                .i64(in[0].dim(0))
                .groups(KernelCall.size(in[2]), in[0].dim(1), 1);
    }

    /** One group per row of x or of y, whichever has fewer. */
    void scatterAdd(long height, Tensor x, Tensor rows, Tensor y) {
        boolean byHeight = height <= KernelCall.size(rows);
        launcher.zero(y);
        new KernelCall(launcher, Kernel.SCATTER_ADD)
                .tensors(x, rows, y)
                .i64(KernelCall.size(rows))
                .i64(KernelCall.width(x))
                .i64(height)
                .flag(byHeight)
                .groups(KernelCall.size(x) == 0 ? 0 : Math.min(height, KernelCall.size(rows)));
    }

    void columns(Kernel kernel, long from, Tensor x, Tensor y) {
        new KernelCall(launcher, kernel)
                .tensors(x, y)
                .i64(KernelCall.size(y))
                .i64(from)
                .i64(x.shape().last())
                .i64(y.shape().last())
                .elements(KernelCall.size(y));
    }

    void permute(List<Integer> axes, Tensor x, Tensor y) {
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
        Long[] struct = new Long[1 + 2 * MAX_RANK];
        Arrays.fill(struct, 0L);
        struct[0] = (long) rank;
        for (int i = 0; i < rank; i++) {
            struct[1 + i] = y.dim(i);
            struct[1 + MAX_RANK + i] = strides[axes.get(i)];
        }
        new KernelCall(launcher, Kernel.PERMUTE)
                .tensors(x, y)
                .i64(KernelCall.size(y))
                .struct(List.of(struct))
                .elements(KernelCall.size(y));
    }

    void sum(Plain.Sum.Over over, Tensor x, Tensor y) {
        switch (over) {
            case LAST ->
                new KernelCall(launcher, Kernel.SUM_LAST)
                        .tensors(x, y)
                        .i64(x.shape().last())
                        .groups(x.shape().rows());
            case LEADING -> sumRows(Kernel.SUM_LEADING, x.shape(), new Tensor[] {x}, y);
        }
    }

    /** Runs a kernel that sums ranges of the rows of {@code shape}, then sums the partial results until one row is left. */
    void sumRows(Kernel kernel, Shape shape, Tensor[] in, Tensor... sums) {
        long groups = rowGroups(shape.rows());
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor[] partials = groups == 1
                ? sums
                : Arrays.stream(sums)
                        .map(sum -> scratch.allocate(Spec.f32(groups, shape.last())))
                        .toArray(Tensor[]::new);
        new KernelCall(launcher, kernel)
                .tensors(in)
                .tensors(partials)
                .i64(shape.rows())
                .i64(shape.last())
                .groups(KernelCall.groups(shape.last(), KernelCall.COLUMNS_PER_GROUP), groups, 1);
        for (int i = 0; i < sums.length && groups > 1; i++) {
            sum(Plain.Sum.Over.LEADING, partials[i], sums[i]);
        }
        scratch.release();
    }

    private static long rowGroups(long rows) {
        return Math.max(1, KernelCall.groups(rows, ROWS_PER_GROUP));
    }

    /** Scratch memory of summing rows, for this number of sums. */
    static long workspace(Shape shape, int sums) {
        long partials = rowGroups(shape.rows());
        return partials == 1
                ? 0
                : sums * Spec.f32(partials, shape.last()).bytes() + workspace(Shape.of(partials, shape.last()), 1);
    }

    /** (x[, y], w, b) -> [h, ]norm, means, rstds. */
    void layerNorm(Kernel kernel, float eps, Tensor[] in, Tensor[] out) {
        Shape shape = in[0].shape();
        new KernelCall(launcher, kernel)
                .define("CHANNELS_PER_THREAD", channelsPerThread(KernelCall.groups(shape.last(), Launch.GROUP)))
                .tensors(in)
                .tensors(out)
                .i64(shape.rows())
                .i64(shape.last())
                .f32(eps)
                .groups(Math.min(shape.rows(), (long) GROUPS_PER_SM * launcher.multiprocessors()));
    }

    /** (x, w, b, mean, rstd, dy) -> dx[, dw, db]: a row of dw and db of rowsPerGroup group, and then their sums. */
    void layerNormGrad(Tensor[] inputs, Tensor[] out) {
        LayerNormGradInputs<Tensor> in = LayerNormGradInputs.of(inputs);
        Shape shape = in.x().shape();
        long rowsPerGroup = normRows(shape.rows());
        long groups = KernelCall.groups(shape.rows(), rowsPerGroup);
        boolean weights = out.length > 1;
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor[] partials = new Tensor[weights ? 2 : 0];
        for (int i = 0; i < partials.length; i++) {
            partials[i] = groups == 1 ? out[1 + i] : scratch.allocate(Spec.f32(groups, shape.last()));
        }
        boolean vectorized = shape.last() % 4 == 0
                && Stream.concat(Stream.of(in.x(), in.w(), in.dy()), Stream.of(out))
                        .allMatch(KernelCall::aligned);
        int at = vectorized ? 4 : 1;
        KernelCall call = new KernelCall(launcher, Kernel.LAYER_NORM_GRAD)
                .define(
                        "CHANNELS_PER_THREAD",
                        at * channelsPerThread(KernelCall.groups(shape.last(), (long) at * Launch.GROUP)));
        (vectorized ? call.define("VECTORIZED", 1) : call)
                .tensors(in.x(), in.w(), in.mean(), in.rstd(), in.dy(), out[0]);
        (weights ? call.tensors(partials) : call.absent(DType.F32).absent(DType.F32))
                .i64(shape.rows())
                .i64(rowsPerGroup)
                .i64(shape.last())
                .flag(weights)
                .groups(groups);
        for (int i = 0; i < 2 && weights && groups != 1; i++) {
            sum(Plain.Sum.Over.LEADING, partials[i], out[1 + i]);
        }
        scratch.release();
    }

    /** Scratch memory of the weights' gradients. */
    static long layerNormWorkspace(Shape shape) {
        long groups = KernelCall.groups(shape.rows(), normRows(shape.rows()));
        Shape partials = Shape.of(groups, shape.last());
        return groups == 1 ? 0 : 2 * Spec.f32(groups, shape.last()).bytes() + workspace(partials, 1);
    }

    private static long normRows(long rows) {
        return Math.clamp(rows / MIN_GROUPS, 1, MAX_ROWS_PER_GROUP);
    }

    /** Rounds up to a power of two, or three halves of one, so that few kernels serve all widths. */
    private static long channelsPerThread(long least) {
        long held = 1;
        while (held < least) {
            held = Long.bitCount(held) == 2 ? held / 3 * 4 : held == 1 ? 2 : held / 2 * 3;
        }
        return held;
    }

    void slice(long from, Tensor x, Tensor y) {
        launcher.copy(x.view(from * KernelCall.width(x), y.shape()), y);
    }

    void concat(Tensor[] partials, Tensor y) {
        long to = 0;
        for (Tensor part : partials) {
            launcher.copy(part, y.view(to, part.shape()));
            to += KernelCall.size(part);
        }
    }
}
