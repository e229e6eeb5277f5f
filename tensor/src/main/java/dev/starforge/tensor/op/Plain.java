package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Operands.AdamWInputs;
import dev.starforge.tensor.op.Operands.MaskInputs;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * The plain operations: every backend runs them natively, and {@link Fused} operations are defined by them. Activations
 * are float32 or 16-bit: an output has the type of the first input unless stated otherwise, and reductions state their
 * output type. Arithmetic is float32, rounded once when the result is stored. Softmax, logits and optimizers are
 * float32 only.
 */
public sealed interface Plain extends Op {
    /** a + b, where b may broadcast, in the type of a. */
    record Add() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.isFloat(this, in);
            Broadcast.of(this, in[0].shape(), in[1].shape());
            return new Spec[] {in[0]};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            if (b.needs(0)) {
                b.give(0, b.d(0));
            }
            if (b.needs(1)) {
                Shape folded = b.spec(1).shape();
                b.give(1, Broadcast.of(this, b.spec(0).shape(), folded).fold(ops, b.d(0), folded));
            }
        }
    }

    /** a * b, where b may broadcast, in the type of a. */
    record Mul() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            return new Add().outputs(in);
        }

        @Override
        public Saved saved(Needs needs) {
            Saved saved = needs.needs(0) ? Saved.in(1) : Saved.NOTHING;
            return needs.needs(1) ? saved.andIn(0) : saved;
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            if (b.needs(0)) {
                b.give(0, ops.mul(b.d(0), b.in(1)));
            }
            if (b.needs(1)) {
                Shape folded = b.spec(1).shape();
                Tensor product = ops.mul(b.d(0), b.in(0));
                b.give(1, Broadcast.of(this, b.spec(0).shape(), folded).fold(ops, product, folded));
            }
        }
    }

    /** scale * x + shift. */
    record Affine(float scale, float shift) implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.isFloat(this, in);
            return in.clone();
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.run(new Affine(scale, 0), b.d(0)));
        }
    }

    /** fn(x) for every element. */
    record Map(Fn fn) implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.isFloat(this, in);
            return in.clone();
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(0);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.run(new MapGrad(fn), b.in(0), b.d(0)));
        }
    }

    /** (x, dy) -> fn'(x) * dy, in the type of dy. */
    record MapGrad(Fn fn) implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.isFloat(this, in);
            InputChecks.same(this, in[0].shape(), in[1].shape());
            return new Spec[] {in[1]};
        }
    }

    /**
     * op(a) op(b) over the last two dimensions, batched over equal leading ones. A weight of shape [out, in] is b with
     * {@code transposeB}; b may be quantized where a is not transposed.
     *
     * @param to the type of the output
     * @param int8 true if a may be quantized to int8 in small groups where b is quantized and that is faster; for
     *     inference only
     */
    record MatMul(boolean transposeA, boolean transposeB, DType to, boolean int8) implements Plain {
        public MatMul {
            InputChecks.isFloat("MatMul", to);
        }

        public MatMul(boolean transposeA, boolean transposeB, DType to) {
            this(transposeA, transposeB, to, false);
        }

        /** A matmul with float32 output. */
        public MatMul(boolean transposeA, boolean transposeB) {
            this(transposeA, transposeB, DType.F32);
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.isFloat(this, in[0]);
            InputChecks.weight(this, in[1]);
            if (transposeA) {
                InputChecks.isFloat(this, in[1]);
            }
            Shape a = in[0].shape();
            Shape b = in[1].shape();
            int rank = a.rank();
            if (rank < 2 || b.rank() != rank || inner(a, transposeA) != inner(b, !transposeB)) {
                throw mismatch(a, b);
            }
            long[] out = a.dims();
            for (int axis = 0; axis < rank - 2; axis++) {
                if (a.dim(axis) != b.dim(axis)) {
                    throw mismatch(a, b);
                }
            }
            out[rank - 2] = a.dim(transposeA ? -1 : -2);
            out[rank - 1] = b.dim(transposeB ? -2 : -1);
            return new Spec[] {new Spec(to, Shape.of(out))};
        }

        private static long inner(Shape shape, boolean first) {
            return shape.dim(first ? -2 : -1);
        }

        private ShapeException mismatch(Shape a, Shape b) {
            return new ShapeException("MatMul: " + a + (transposeA ? "^T" : "") + " x " + b + (transposeB ? "^T" : "")
                    + ": expected equal leading and inner dimensions");
        }

        @Override
        public Saved saved(Needs needs) {
            Saved saved = needs.needs(0) ? Saved.in(1) : Saved.NOTHING;
            return needs.needs(1) ? saved.andIn(0) : saved;
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            Tensor d = b.d(0);
            if (b.needs(0)) {
                if (transposeA) {
                    b.give(0, new MatMul(transposeB, true, b.gradientType(0)), b.in(1), d);
                } else {
                    b.give(0, new MatMul(false, !transposeB, b.gradientType(0)), d, b.in(1));
                }
            }
            if (b.needs(1)) {
                if (transposeB) {
                    b.give(1, new MatMul(true, transposeA, b.gradientType(1)), d, b.in(0));
                } else {
                    b.give(1, new MatMul(!transposeA, false, b.gradientType(1)), b.in(0), d);
                }
            }
        }
    }

    /** Reorders dimensions: output axis i is input axis {@code axes[i]}. */
    record Permute(List<Integer> axes) implements Plain {
        public Permute {
            axes = List.copyOf(axes);
            if (!axes.stream()
                    .sorted()
                    .toList()
                    .equals(IntStream.range(0, axes.size()).boxed().toList())) {
                throw new ShapeException("Permute: " + axes + " is not a permutation");
            }
        }

        public static Permute of(Integer... axes) {
            return new Permute(List.of(axes));
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.isFloat(this, in);
            InputChecks.rank(this, axes.size(), in[0]);
            long[] out = new long[axes.size()];
            Arrays.setAll(out, i -> in[0].shape().dim(axes.get(i)));
            return new Spec[] {new Spec(in[0].dtype(), Shape.of(out))};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            Integer[] inverse = new Integer[axes.size()];
            for (int i = 0; i < inverse.length; i++) {
                inverse[axes.get(i)] = i;
            }
            b.give(0, ops.run(Permute.of(inverse), b.d(0)));
        }
    }

    /** Sums over the last dimension (kept as 1), or over all but the last (dropped), in float32. */
    record Sum(Over over) implements Plain {
        public enum Over {
            LAST,
            LEADING
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.isFloat(this, in);
            Shape shape = in[0].shape();
            return new Spec[] {new Spec(DType.F32, over == Over.LAST ? shape.withLast(1) : Shape.of(shape.last()))};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            Spec whole = new Spec(b.gradientType(0), b.spec(0).shape());
            b.give(0, ops.add(ops.run(new Fill(whole, 0)), b.d(0)));
        }
    }

    /** Softmax of each row. */
    record Softmax() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.type(this, DType.F32, in);
            return in.clone();
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.out(0);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.run(new SoftmaxGrad(), b.out(0), b.d(0)));
        }
    }

    /** (y, dy) -> y * (dy - sum(y * dy)), row by row. */
    record SoftmaxGrad() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.type(this, DType.F32, in);
            InputChecks.same(this, in[0].shape(), in[1].shape());
            return new Spec[] {in[0]};
        }
    }

    /** log(sum(exp(x))) of each row, kept as [..., 1]; -infinity for an empty row. */
    record LogSumExp() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.type(this, DType.F32, in);
            return new Spec[] {new Spec(DType.F32, in[0].shape().withLast(1))};
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(0);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.mul(ops.run(new Softmax(), b.in(0)), b.d(0)));
        }
    }

    /** (x[N, V], ids i32[N, K] or i32[N] for K = 1) -> x[n, ids[n, k]] as [N, K]; 0 where the id is outside 0..V-1. */
    record Pick() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.type(this, DType.F32, in[0]);
            InputChecks.type(this, DType.I32, in[1]);
            InputChecks.rank(this, 2, in[0]);
            long rows = in[0].shape().dim(0);
            Shape ids = in[1].shape();
            long picks = ids.rank() == 1 ? 1 : ids.last();
            InputChecks.same(this, ids.rank() == 1 ? Shape.of(rows) : Shape.of(rows, picks), ids);
            return new Spec[] {Spec.f32(rows, picks)};
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(1);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.run(new Unpick(b.spec(0).shape().last()), b.d(0), b.in(1)));
        }
    }

    /**
     * (d[N, K], ids i32[N, K] or i32[N] for K = 1) -> [N, width]: zeros, with d[n, k] added at ids[n, k] in ascending
     * k.
     */
    record Unpick(long width) implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.type(this, DType.F32, in[0]);
            InputChecks.type(this, DType.I32, in[1]);
            InputChecks.rank(this, 2, in[0]);
            Shape ids = in[1].shape();
            InputChecks.same(this, ids.rank() == 1 ? Shape.of(ids.size(), 1) : ids, in[0].shape());
            return new Spec[] {new Spec(DType.F32, in[0].shape().withLast(width))};
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(1);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.run(new Pick(), b.d(0), b.in(1)));
        }
    }

    /**
     * (table[R, ...] of a float type, or quantized [R, C], rows i32[N]) -> [N, ...] in the table's type, or float32 of
     * a quantized one. The caller ensures that rows are inside the table.
     */
    record Gather() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.weight(this, in[0]);
            if (in[0].dtype().isQuantized()) {
                InputChecks.rank(this, 2, in[0]);
            }
            InputChecks.type(this, DType.I32, in[1]);
            InputChecks.rank(this, 1, in[1]);
            DType type = in[0].dtype().isQuantized() ? DType.F32 : in[0].dtype();
            return new Spec[] {
                new Spec(type, in[0].shape().withFirst(in[1].shape().size()))
            };
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(1);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.run(new ScatterAdd(b.spec(0).shape().dim(0), b.gradientType(0)), b.d(0), b.in(1)));
        }
    }

    /** (x[N, ...], rows i32[N]) -> [height, ...] of type {@code to}: the sum of the x that name each row, in ascending n. */
    record ScatterAdd(long height, DType to) implements Plain {
        public ScatterAdd {
            InputChecks.isFloat("ScatterAdd", to);
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.isFloat(this, in[0]);
            InputChecks.type(this, DType.I32, in[1]);
            InputChecks.same(this, Shape.of(in[0].shape().dim(0)), in[1].shape());
            return new Spec[] {new Spec(to, in[0].shape().withFirst(height))};
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(1);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.gather(b.d(0), b.in(1)));
        }
    }

    /** Rows from..to-1 of the first dimension. */
    record Slice(long from, long to) implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.isFloat(this, in);
            if (from < 0 || to < from || to > in[0].shape().dim(0)) {
                throw new ShapeException("Slice: rows " + from + ".." + to + " of " + in[0].shape());
            }
            return new Spec[] {new Spec(in[0].dtype(), in[0].shape().withFirst(to - from))};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            Shape whole = b.spec(0).shape();
            DType type = b.d(0).dtype();
            Tensor before = ops.run(new Fill(new Spec(type, whole.withFirst(from)), 0));
            Tensor after = ops.run(new Fill(new Spec(type, whole.withFirst(whole.dim(0) - to)), 0));
            b.give(0, ops.run(new Concat(), before, b.d(0), after));
        }
    }

    /** Joins inputs of one type along the first dimension. */
    record Concat() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            if (in.length == 0) {
                throw new ShapeException("Concat: expected at least one input");
            }
            InputChecks.isFloat(this, in);
            InputChecks.type(this, in[0].dtype(), in);
            long rows = 0;
            for (Spec spec : in) {
                InputChecks.same(this, in[0].shape().withFirst(0), spec.shape().withFirst(0));
                rows += spec.shape().dim(0);
            }
            return new Spec[] {new Spec(in[0].dtype(), in[0].shape().withFirst(rows))};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            long from = 0;
            for (int i = 0; i < b.inputs(); i++) {
                long rows = b.spec(i).shape().dim(0);
                if (b.needs(i)) {
                    b.give(i, ops.run(new Slice(from, from + rows), b.d(0)));
                }
                from += rows;
            }
        }
    }

    /** Columns from..to-1 of the last dimension. */
    record Columns(long from, long to) implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.isFloat(this, in);
            if (from < 0 || to < from || to > in[0].shape().last()) {
                throw new ShapeException("Columns: " + from + ".." + to + " of " + in[0].shape());
            }
            return new Spec[] {new Spec(in[0].dtype(), in[0].shape().withLast(to - from))};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.run(new Pad(from, b.spec(0).shape().last()), b.d(0)));
        }
    }

    /** Pads x with zeros to {@code width} columns; x begins at column {@code from}. */
    record Pad(long from, long width) implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.isFloat(this, in);
            if (from < 0 || in[0].shape().last() > width - from) {
                throw new ShapeException("Pad: " + in[0].shape() + " from column " + from + " of " + width);
            }
            return new Spec[] {new Spec(in[0].dtype(), in[0].shape().withLast(width))};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.run(new Columns(from, from + b.spec(0).shape().last()), b.d(0)));
        }
    }

    /** A new tensor of one value. */
    record Fill(Spec spec, float value) implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 0, in);
            InputChecks.isFloat(this, spec);
            return new Spec[] {spec};
        }
    }

    /**
     * Converts the elements to another type, rounding to nearest even; i32 and i8 become the nearest float, a quantized
     * tensor becomes float32. The gradient of a float32 input is float32, so the gradients of master weights are, too.
     */
    record Cast(DType to) implements Plain {
        public Cast {
            if (!to.isFloat()) {
                throw new ShapeException("Cast: to " + to + " is not a float type");
            }
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            if (in[0].dtype() != DType.I32 && in[0].dtype() != DType.I8) {
                InputChecks.weight(this, in[0]);
            }
            if (in[0].dtype().isQuantized() && to != DType.F32) {
                throw new ShapeException("Cast: " + in[0] + " to " + to + ", expected F32");
            }
            return new Spec[] {new Spec(to, in[0].shape())};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, b.d(0));
        }
    }

    /**
     * Sets masked scores to -infinity. Scores are [G, N, S * L]: G groups of heads, N queries of S sequences, L = table
     * width * block keys for each; inputs after them as in {@link Fused.Attention}. Query n at position t of sequence s
     * sees keys t - window + 1 .. t of s (0 .. t without a window). The gradient passes unchanged: masked scores have
     * probability zero, so their gradient is zero.
     */
    record Mask(int window, int block) implements Plain {
        public Mask {
            InputChecks.paging(window, block);
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 4, in);
            MaskInputs<Spec> m = MaskInputs.of(in);
            InputChecks.type(this, DType.F32, m.scores());
            InputChecks.ragged(this, m.scores().shape().dim(1), m.starts(), m.positions(), m.tables());
            InputChecks.same(
                    this,
                    Shape.of(
                            m.scores().shape().dim(0),
                            m.positions().shape().size(),
                            m.tables().shape().size() * block),
                    m.scores().shape());
            return new Spec[] {m.scores()};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, b.d(0));
        }
    }

    /** The index of the largest element of each row, the lowest one among equals: [..., C] -> i32 [rows]. NaN never wins. */
    record Argmax() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.type(this, DType.F32, in);
            if (in[0].shape().last() == 0) {
                throw new ShapeException("Argmax: rows of " + in[0].shape() + " are empty");
            }
            return new Spec[] {Spec.i32(in[0].shape().rows())};
        }
    }

    /** (cache[R, ...] overwritten, rows i32[N], x[N, ...]): writes x[n] to cache[rows[n]] in the cache's type. No output. */
    record Store() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 3, in);
            InputChecks.isFloat(this, in[0]);
            InputChecks.type(this, DType.I32, in[1]);
            InputChecks.isFloat(this, in[2]);
            InputChecks.same(this, in[0].shape().withFirst(in[1].shape().size()), in[2].shape());
            return new Spec[0];
        }

        @Override
        public boolean mutates(int input) {
            return input == 0;
        }
    }

    /** The Euclidean norm of all inputs together, as [1]. */
    record Norm() implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.type(this, DType.F32, in);
            return new Spec[] {Spec.f32(1)};
        }
    }

    /**
     * One step of Adam with decoupled weight decay (Loshchilov and Hutter 2019), torch's order of operations:
     * (parameter, m, v overwritten, gradient, norm[1], rate[3]) with rate = learning rate, 1 - beta1^t, 1 - beta2^t.
     * The gradient is first scaled by maxNorm / (norm + 1e-6) where that is below 1. If the norm is not finite, the
     * step changes nothing, so the host does not need to check it first. No output.
     */
    record AdamW(double beta1, double beta2, double eps, double weightDecay, double maxNorm) implements Plain {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 6, in);
            AdamWInputs<Spec> a = AdamWInputs.of(in);
            InputChecks.type(this, DType.F32, in);
            InputChecks.same(this, a.parameter().shape(), a.m().shape());
            InputChecks.same(this, a.parameter().shape(), a.v().shape());
            InputChecks.same(this, a.parameter().shape(), a.gradient().shape());
            InputChecks.same(this, Shape.of(1), a.norm().shape());
            InputChecks.same(this, Shape.of(3), a.rate().shape());
            return new Spec[0];
        }

        @Override
        public boolean mutates(int input) {
            return input < 3;
        }
    }
}
