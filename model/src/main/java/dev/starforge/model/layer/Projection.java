package dev.starforge.model.layer;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Ops;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Plain;

/** x[N, in] -> y[N, out]. Quantization and LoRA swap the projection, never the model that uses it. */
public sealed interface Projection {
    /** The result in type {@code to}. */
    Tensor apply(Ops ops, Tensor x, DType to);

    /** The result in the type that the run computes in. */
    default Tensor apply(Ops ops, Tensor x) {
        return apply(ops, x, ops.precision().compute());
    }

    /** The result in float32, as the scores of tokens and of experts are. */
    default Tensor logits(Ops ops, Tensor x) {
        return apply(ops, x, DType.F32);
    }

    /** The matrix [out, in] that {@link #apply} multiplies with in float32, for those who need its parts. */
    Tensor weight(Ops ops);

    /** x W^T. */
    record Linear(Tensor matrix) implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x, DType to) {
            return ops.project(x, matrix, to);
        }

        @Override
        public Tensor weight(Ops ops) {
            return matrix.dtype() == DType.F32 ? matrix : ops.run(new Plain.Cast(DType.F32), matrix);
        }
    }

    /** What another projection gives, plus a bias. */
    record Biased(Projection base, Tensor bias) implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x, DType to) {
            return ops.add(base.apply(ops, x, to), bias);
        }

        @Override
        public Tensor weight(Ops ops) {
            return base.weight(ops);
        }
    }

    /** What another projection gives, plus scale * (x A^T) B^T (Hu et al. 2021); {@code site} is where training drops. */
    record LoraLinear(Projection base, Tensor a, Tensor b, float scale, int site) implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x, DType to) {
            Tensor update = ops.project(ops.project(ops.dropout(x, site), a), b);
            return ops.add(base.apply(ops, x, to), ops.scale(update, scale));
        }

        @Override
        public Tensor weight(Ops ops) {
            Tensor update = ops.run(new Plain.MatMul(false, false), b, a);
            return ops.add(base.weight(ops), ops.scale(update, scale));
        }
    }

    /**
     * What another projection gives, plus what each row's adapter adds to it (see {@link Ops#lora}). {@link LoraLinear} is the
     * same of one adapter for all rows, which can be trained and has a matrix.
     *
     * @param a [adapters, rank, in]
     * @param b [adapters, out, rank]
     * @param scales [adapters]
     */
    record LoraTable(Projection base, Tensor a, Tensor b, Tensor scales) implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x, DType to) {
            return ops.lora(base.apply(ops, x, to), x, a, b, scales);
        }

        @Override
        public Tensor weight(Ops ops) {
            throw new TensorException("weight: a projection with a table of " + a.dim(0)
                    + " adapters has as many matrices, expected one; load the model with one adapter, or merge it");
        }
    }

    /**
     * The rows of W + scale * B A brought to the lengths {@code magnitude} (Liu et al. 2024), W being another projection
     * without bias. Their own lengths count as constants, as PEFT has it: views of a and b are tensors that no tape follows.
     */
    record DoraLinear(Projection base, Tensor a, Tensor b, Tensor magnitude, float scale, int site)
            implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x, DType to) {
            Tensor factor = ops.block(magnitude, (o, m) -> factor(o, m));
            Tensor dropped = ops.dropout(x, site);
            Tensor update = ops.scale(ops.project(ops.project(dropped, a), b), scale);
            Tensor plain = base.apply(ops, x, to);
            if (dropped == x) {
                return ops.mul(ops.add(plain, update), factor);
            }
            Tensor other = base.apply(ops, dropped, to);
            Tensor scaled = ops.mul(ops.add(other, update), factor);
            return ops.add(ops.add(plain, ops.scale(other, -1)), scaled);
        }

        @Override
        public Tensor weight(Ops ops) {
            Tensor sum = new LoraLinear(base, a, b, scale, site).weight(ops);
            return ops.mul(sum, ops.reshape(factor(ops, magnitude), Shape.of(magnitude.dim(0), 1)));
        }

        private Tensor factor(Ops ops, Tensor lengths) {
            Projection detached = new LoraLinear(base, a.view(0, a.shape()), b.view(0, b.shape()), scale, site);
            return ops.mul(lengths, ops.map(Fn.RSQRT, squaredLengths(ops, detached)));
        }

        /** The squared length of every row of a projection's matrix, [out]. */
        public static Tensor squaredLengths(Ops ops, Projection projection) {
            Tensor w = ops.run(new Plain.Cast(DType.F32), projection.weight(ops));
            return ops.reshape(ops.run(new Plain.Sum(Plain.Sum.Over.LAST), ops.mul(w, w)), Shape.of(w.dim(0)));
        }
    }
}
