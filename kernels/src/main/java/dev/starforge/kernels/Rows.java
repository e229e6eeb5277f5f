package dev.starforge.kernels;

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

/** Launches of what moves or adds rows; see rows.kernel. */
final class Rows {
    /** As rows.kernel has it. */
    static final int MAX_RANK = 8;

    /** Rows that a group adds up, as common.kernel has it. */
    static final int STRETCH = 256;

    /** Groups of a norm that a multiprocessor holds. */
    private static final int RESIDENT = 4;

    /** Groups that a norm's gradient has at least where there are as many rows, and rows of a group at most. */
    private static final long GROUPS = 1024;

    private static final long MOST_EACH = 32;

    private final Launcher launcher;

    Rows(Launcher launcher) {
        this.launcher = launcher;
    }

    void gather(Tensor table, Tensor rows, Tensor y) {
        new Call(launcher, Kernel.GATHER)
                .tensors(table, rows, y)
                .i64(Call.size(y))
                .i64(Call.width(y))
                .i64(table.dim(0))
                .elements(Call.size(y));
    }

    void store(Tensor cache, Tensor rows, Tensor x) {
        new Call(launcher, Kernel.STORE)
                .tensors(cache, rows, x)
                .i64(Call.size(rows))
                .i64(Call.width(x))
                .i64(cache.dim(0))
                .groups(Call.size(x) == 0 ? 0 : Call.size(rows));
    }

    /** (codes, scales, rows, x). */
    void storeInt8(Tensor[] in) {
        new Call(launcher, Kernel.STORE_INT8)
                .tensors(in)
                .i64(Call.size(in[2]))
                .i32(in[0].dim(1))
                .i32(in[0].dim(2))
                .i64(in[0].dim(0))
                .groups(Call.size(in[2]), in[0].dim(1), 1);
    }

    /** One group for each row of whichever there are fewer: of x, or of y. */
    void scatterAdd(long height, Tensor x, Tensor rows, Tensor y) {
        boolean byHeight = height <= Call.size(rows);
        launcher.zero(y);
        new Call(launcher, Kernel.SCATTER_ADD)
                .tensors(x, rows, y)
                .i64(Call.size(rows))
                .i64(Call.width(x))
                .i64(height)
                .flag(byHeight)
                .groups(Call.size(x) == 0 ? 0 : Math.min(height, Call.size(rows)));
    }

    void columns(Kernel kernel, long from, Tensor x, Tensor y) {
        new Call(launcher, kernel)
                .tensors(x, y)
                .i64(Call.size(y))
                .i64(from)
                .i64(x.shape().last())
                .i64(y.shape().last())
                .elements(Call.size(y));
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
        new Call(launcher, Kernel.PERMUTE)
                .tensors(x, y)
                .i64(Call.size(y))
                .struct(List.of(struct))
                .elements(Call.size(y));
    }

    void sum(Plain.Sum.Over over, Tensor x, Tensor y) {
        switch (over) {
            case LAST ->
                new Call(launcher, Kernel.SUM_LAST)
                        .tensors(x, y)
                        .i64(x.shape().last())
                        .groups(x.shape().rows());
            case LEADING -> addUp(Kernel.SUM_LEADING, x.shape(), new Tensor[] {x}, y);
        }
    }

    /** Runs a kernel that adds up stretches of the rows of {@code shape}, and then their sums, until there is one of each. */
    void addUp(Kernel kernel, Shape shape, Tensor[] in, Tensor... sums) {
        long stretches = stretches(shape.rows());
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor[] parts = stretches == 1
                ? sums
                : Arrays.stream(sums)
                        .map(sum -> scratch.allocate(Spec.f32(stretches, shape.last())))
                        .toArray(Tensor[]::new);
        new Call(launcher, kernel)
                .tensors(in)
                .tensors(parts)
                .i64(shape.rows())
                .i64(shape.last())
                .groups(Call.groups(shape.last(), Call.COLUMNS), stretches, 1);
        for (int i = 0; i < sums.length && stretches > 1; i++) {
            sum(Plain.Sum.Over.LEADING, parts[i], sums[i]);
        }
        scratch.release();
    }

    private static long stretches(long rows) {
        return Math.max(1, Call.groups(rows, STRETCH));
    }

    /** Scratch memory for adding up rows to so many sums. */
    static long workspace(Shape shape, int sums) {
        long parts = stretches(shape.rows());
        return parts == 1
                ? 0
                : sums * Spec.f32(parts, shape.last()).bytes() + workspace(Shape.of(parts, shape.last()), 1);
    }

    /** (x[, y], w, b) -> [h, ]norm, means, rstds. */
    void layerNorm(Kernel kernel, float eps, Tensor[] in, Tensor[] out) {
        Shape shape = in[0].shape();
        new Call(launcher, kernel)
                .define("HELD", held(Call.groups(shape.last(), Launch.GROUP)))
                .tensors(in)
                .tensors(out)
                .i64(shape.rows())
                .i64(shape.last())
                .f32(eps)
                .groups(Math.min(shape.rows(), (long) RESIDENT * launcher.multiprocessors()));
    }

    /** (x, w, b, mean, rstd, dy) -> dx[, dw, db]: a row of dw and db of each group, and then their sums. */
    void layerNormGrad(Tensor[] inputs, Tensor[] out) {
        LayerNormGradInputs<Tensor> in = LayerNormGradInputs.of(inputs);
        Shape shape = in.x().shape();
        long each = normRows(shape.rows());
        long groups = Call.groups(shape.rows(), each);
        boolean weights = out.length > 1;
        Scope scratch = launcher.scratch();
        scratch.mark();
        Tensor[] parts = {in.mean(), in.rstd()}; // of the type that the kernel expects, where it writes none
        for (int i = 0; i < 2 && weights; i++) {
            parts[i] = groups == 1 ? out[1 + i] : scratch.allocate(Spec.f32(groups, shape.last()));
        }
        boolean wide = shape.last() % 4 == 0
                && Stream.concat(Stream.of(in.x(), in.w(), in.dy()), Stream.of(out))
                        .allMatch(Call::aligned);
        int at = wide ? 4 : 1;
        Call call = new Call(launcher, Kernel.LAYER_NORM_GRAD)
                .define("HELD", at * held(Call.groups(shape.last(), (long) at * Launch.GROUP)));
        (wide ? call.define("WIDE", 1) : call)
                .tensors(in.x(), in.w(), in.mean(), in.rstd(), in.dy(), out[0])
                .tensors(parts)
                .i64(shape.rows())
                .i64(each)
                .i64(shape.last())
                .flag(weights)
                .groups(groups);
        for (int i = 0; i < 2 && weights && groups != 1; i++) {
            sum(Plain.Sum.Over.LEADING, parts[i], out[1 + i]);
        }
        scratch.release();
    }

    /** Scratch memory for the weights' gradients. */
    static long layerNormWorkspace(Shape shape) {
        long groups = Call.groups(shape.rows(), normRows(shape.rows()));
        Shape parts = Shape.of(groups, shape.last());
        return groups == 1 ? 0 : 2 * Spec.f32(groups, shape.last()).bytes() + workspace(parts, 1);
    }

    private static long normRows(long rows) {
        return Math.clamp(rows / GROUPS, 1, MOST_EACH);
    }

    /** A power of two, or three halves of one, and at least so many: so few kernels serve all widths. */
    private static long held(long least) {
        long held = 1;
        while (held < least) {
            held = Long.bitCount(held) == 2 ? held / 3 * 4 : held == 1 ? 2 : held / 2 * 3;
        }
        return held;
    }

    void slice(long from, Tensor x, Tensor y) {
        launcher.copy(x.view(from * Call.width(x), y.shape()), y);
    }

    void concat(Tensor[] parts, Tensor y) {
        long to = 0;
        for (Tensor part : parts) {
            launcher.copy(part, y.view(to, part.shape()));
            to += Call.size(part);
        }
    }
}
