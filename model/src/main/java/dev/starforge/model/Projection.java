package dev.starforge.model;

import dev.starforge.tensor.Ops;
import dev.starforge.tensor.Tensor;

/** x[N, in] -> y[N, out]. Quantization and LoRA swap the projection, never the model that uses it. */
sealed interface Projection {
    Tensor apply(Ops ops, Tensor x);

    /** x W^T. */
    record Linear(Tensor weight) implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x) {
            return ops.project(x, weight);
        }
    }

    /** What another projection gives, plus a bias. */
    record Biased(Projection base, Tensor bias) implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x) {
            return ops.add(base.apply(ops, x), bias);
        }
    }

    /** What another projection gives, plus scale * (x A^T) B^T (Hu et al. 2021). */
    record LoraLinear(Projection base, Tensor a, Tensor b, float scale) implements Projection {
        @Override
        public Tensor apply(Ops ops, Tensor x) {
            Tensor update = ops.project(ops.project(x, a), b);
            return ops.add(base.apply(ops, x), ops.scale(update, scale));
        }
    }
}
