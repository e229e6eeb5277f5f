package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Operands.ExpertLoraInputs;
import dev.starforge.tensor.op.Operands.LoraInputs;
import dev.starforge.tensor.op.Plain.Affine;
import dev.starforge.tensor.op.Plain.Fill;
import dev.starforge.tensor.op.Plain.MatMul;
import dev.starforge.tensor.op.Plain.Unpick;
import dev.starforge.tensor.op.Routing.ExpertMatMul;

/**
 * Batched LoRA (Hu et al. 2021) with a table of adapters, so that the rows of one batch can have different adapters, or none
 * (Punica, Chen et al. 2023; S-LoRA, Sheng et al. 2023). A row with a negative index uses the base model and stays bit-equal.
 * All arithmetic is float32, rounded once to the type of y.
 *
 * <p>The expansion multiplies all rows with all adapters and weights each product with the row's scale for that adapter, or
 * zero. Its cost grows with the number of adapters, and all values of x and of the tables must be finite, including unused
 * table entries. A kernel reads only the adapters in use. The sum of a base row's products is zero; it is added as y + -0,
 * which preserves a y of -0.
 *
 * <p>The gradient is that of the expansion, without saving y. Training does not use these operations: with one adapter for
 * all rows it runs two plain products.
 */
public sealed interface Adapters extends Fused {
    /**
     * (y[N, out], x[N, in], a[T, rank, in], b[T, out, rank], scales[T], index i32[N]) -> y[n] + scales[i] * (x[n] a[i]^T) b[i]^T
     * with i = index[n] below T. An adapter of smaller rank has rows of zeros.
     */
    record Lora() implements Adapters {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 6, in);
            LoraInputs<Spec> l = LoraInputs.of(in);
            InputChecks.rank(this, 3, l.a());
            check(this, l.a().shape(), l);
            InputChecks.same(this, Shape.of(l.y().shape().dim(0)), l.index().shape());
            return new Spec[] {l.y()};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            LoraInputs<Tensor> l = LoraInputs.of(in);
            Shape a = l.a().shape();
            long ranks = a.dim(0) * a.dim(1);
            Tensor downs = ops.reshape(l.a(), Shape.of(ranks, a.dim(2)));
            Tensor ups = ops.reshape(ops.permute(l.b(), 1, 0, 2), Shape.of(l.y().dim(1), ranks));
            Tensor shares = shares(ops, l.scales(), l.index());
            Tensor h = ops.run(new MatMul(false, true), l.x(), downs);
            Tensor z = ops.run(new MatMul(false, true), weighed(ops, h, shares), ups);
            return new Tensor[] {minus(ops, l.y(), z)};
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(1, 2, 3, 4, 5);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            withoutY(this, ops, b);
        }
    }

    /**
     * The same for rows that {@link Routing.Group} sorted by expert, each expert with a table of its own: (y[R, out], x[R, in],
     * a[E, T, rank, in], b[E, T, out, rank], scales[T], index i32[N], tokens i32[R], offsets i32[E + 1]). Row r belongs to
     * token tokens[r], whose adapter is index[tokens[r]]; rows offsets[e] to offsets[e + 1]-1 use a[e] and b[e].
     */
    record ExpertLora() implements Adapters {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 8, in);
            ExpertLoraInputs<Spec> e = ExpertLoraInputs.of(in);
            LoraInputs<Spec> l = e.lora();
            InputChecks.rank(this, 4, l.a());
            Shape a = l.a().shape();
            check(this, Shape.of(a.dim(1), a.dim(2), a.dim(3)), l);
            InputChecks.type(this, DType.I32, e.tokens(), e.offsets());
            InputChecks.rank(this, 1, l.index());
            InputChecks.same(this, Shape.of(l.y().shape().dim(0)), e.tokens().shape());
            InputChecks.same(this, Shape.of(a.dim(0) + 1), e.offsets().shape());
            return new Spec[] {l.y()};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            ExpertLoraInputs<Tensor> e = ExpertLoraInputs.of(in);
            LoraInputs<Tensor> l = e.lora();
            Shape a = l.a().shape();
            long ranks = a.dim(1) * a.dim(2);
            Tensor downs = ops.reshape(l.a(), Shape.of(a.dim(0), ranks, a.dim(3)));
            Tensor ups = ops.reshape(ops.permute(l.b(), 0, 2, 1, 3), Shape.of(a.dim(0), l.y().dim(1), ranks));
            Tensor shares = ops.gather(shares(ops, l.scales(), l.index()), e.tokens());
            Tensor h = ops.run(new ExpertMatMul(true), l.x(), downs, e.offsets());
            Tensor z = ops.run(new ExpertMatMul(true), weighed(ops, h, shares), ups, e.offsets());
            return new Tensor[] {minus(ops, l.y(), z)};
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(1, 2, 3, 4, 5, 6, 7);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            withoutY(this, ops, b);
        }
    }

    /** Checks the inputs of both operations; {@code table} is the shape of a without experts, [T, rank, in]. */
    private static void check(Op op, Shape table, LoraInputs<Spec> in) {
        InputChecks.isFloat(op, in.y(), in.x(), in.a(), in.b());
        InputChecks.type(op, DType.F32, in.scales());
        InputChecks.type(op, DType.I32, in.index());
        InputChecks.rank(op, 2, in.y());
        long out = in.y().shape().dim(1);
        InputChecks.same(
                op, Shape.of(in.y().shape().dim(0), table.dim(2)), in.x().shape());
        Shape b = in.a().shape().rank() == 3
                ? Shape.of(table.dim(0), out, table.dim(1))
                : Shape.of(in.a().shape().dim(0), table.dim(0), out, table.dim(1));
        InputChecks.same(op, b, in.b().shape());
        InputChecks.same(op, Shape.of(table.dim(0)), in.scales().shape());
    }

    /** [N, T]: the negated scale of the row's adapter, zero for the other adapters. */
    private static Tensor shares(Ops ops, Tensor scales, Tensor index) {
        Tensor one = ops.run(new Fill(Spec.f32(index.dim(0), 1), 1));
        return ops.mul(ops.run(new Unpick(scales.dim(0)), one, index), ops.scale(scales, -1));
    }

    /** Multiplies each adapter's part of h[N, T * rank] by the row's scale for it. */
    private static Tensor weighed(Ops ops, Tensor h, Tensor shares) {
        long parts = shares.shape().size();
        Shape each = Shape.of(parts, parts == 0 ? 0 : h.shape().size() / parts);
        return ops.reshape(ops.mul(ops.reshape(h, each), ops.reshape(shares, Shape.of(parts, 1))), h.shape());
    }

    /** y - z in the type of y; bit-equal to y where z is zero. */
    private static Tensor minus(Ops ops, Tensor y, Tensor z) {
        return ops.cast(ops.add(ops.cast(y, DType.F32), ops.run(new Affine(-1, -0f), z)), y.dtype());
    }

    /** The gradient of a sum does not read its terms, so the gradient of y is passed in place of y. */
    private static void withoutY(Adapters op, Ops ops, Backward b) {
        b.give(0, b.d(0));
        Tensor[] in = new Tensor[b.inputs()];
        in[0] = b.d(0);
        for (int i = 1; i < in.length; i++) {
            in[i] = b.in(i);
        }
        Tensor[] gradients = Tape.gradientOfExpansion(op, ops, in, b.d(0), input -> input > 0 && b.needs(input));
        int next = 0;
        for (int i = 1; i < in.length; i++) {
            if (b.needs(i)) {
                b.give(i, gradients[next++]);
            }
        }
    }
}
