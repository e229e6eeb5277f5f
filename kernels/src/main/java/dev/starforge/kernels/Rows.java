package dev.starforge.kernels;

import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Plain;
import java.util.Arrays;
import java.util.List;

/** Launches of what moves or adds rows; see rows.kernel. */
final class Rows {
    /** As rows.kernel has it. */
    static final int MAX_RANK = 8;

    /** Rows that a group adds up, as common.kernel has it. */
    static final int STRETCH = 256;

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
