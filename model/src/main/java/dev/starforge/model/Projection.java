package dev.starforge.model;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Ops;
import dev.starforge.tensor.Plain;
import dev.starforge.tensor.Tensor;

/** x[N, in] -> y[N, out]. Quantization and LoRA swap the projection, never the model that uses it. */
sealed interface Projection {
    Tensor apply(Ops ops, Tensor x);

    /** The matrix [out, in] that {@link #apply} multiplies with in float32, for those who need its parts. */
    Tensor weight(Ops ops);

    /** x W^T. */
    record Linear(Tensor matrix) implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x) {
            return ops.project(x, matrix);
        }

        @Override
        public Tensor weight(Ops ops) {
            return matrix.dtype() == DType.F32 ? matrix : ops.run(new Plain.Cast(DType.F32), matrix);
        }
    }

    /** What another projection gives, plus a bias. */
    record Biased(Projection base, Tensor bias) implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x) {
            return ops.add(base.apply(ops, x), bias);
        }

        @Override
        public Tensor weight(Ops ops) {
            return base.weight(ops);
        }
    }

    /** What another projection gives, plus scale * (x A^T) B^T (Hu et al. 2021). */
    record LoraLinear(Projection base, Tensor a, Tensor b, float scale) implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x) {
            Tensor update = ops.project(ops.project(x, a), b);
            return ops.add(base.apply(ops, x), ops.scale(update, scale));
        }

        @Override
        public Tensor weight(Ops ops) {
            Tensor update = ops.run(new Plain.MatMul(false, false), b, a);
            return ops.add(base.weight(ops), ops.scale(update, scale));
        }
    }
}
