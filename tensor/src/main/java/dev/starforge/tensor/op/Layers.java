package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Operands.AddLayerNormInputs;
import dev.starforge.tensor.op.Plain.Map;
import dev.starforge.tensor.op.Plain.MatMul;
import dev.starforge.tensor.op.Plain.Sum;

/**
 * Fused consecutive operations of a transformer block: a matmul with its epilogue (bias, activation, residual), matmuls
 * of the same x, a residual and the norm of the sum. Fusion saves launches and memory traffic only. Each part is
 * rounded to the type of its result, so that the fused operation is bit-equal to its parts if sums are in the same
 * order.
 *
 * <p>A tape therefore records the expansion instead: it saves what the gradients of activations and norms read,
 * computes nothing twice, and a recomputed block is bit-equal. The gradient of a sum reads no inputs, so a single
 * matmul with addends is recorded as one operation.
 */
public sealed interface Layers extends Fused {
    /** Returns true if a tape records the operation itself, because its gradient reads no intermediate result. */
    default boolean isWhole() {
        return false;
    }

    /**
     * (x[N, in], then {@code weights} matrices [out, in], each of a type of its own, then as many biases [out] if there
     * are any, then the residual [N, out] if there is one) -> for each weight y[N, out] = fn(x W^T + bias) + residual.
     *
     * @param weights the number of weights; 1 if there is a residual
     * @param bias whether each has a bias
     * @param fn the activation, or {@link Fn#IDENTITY}
     * @param to the type of the outputs, and of the residual
     * @param int8 as in {@link MatMul}
     */
    record Linear(int weights, boolean bias, Fn fn, boolean residual, DType to, boolean int8) implements Layers {
        public Linear {
            InputChecks.isFloat("Linear", to);
            if (weights < 1 || residual && weights > 1) {
                throw new ShapeException("Linear: " + weights + " weights" + (residual ? " and a residual" : "")
                        + ": expected one, or several without a residual");
            }
        }

        /** Returns the matmul without its epilogue. */
        public MatMul product() {
            return new MatMul(false, true, to, int8);
        }

        /** Returns the input index of the bias of a weight, given the weight's input index. */
        public int biasOf(int weight) {
            return weights + weight;
        }

        /** Returns the input index of the residual. */
        public int residualInput() {
            return 1 + weights + (bias ? weights : 0);
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, residualInput() + (residual ? 1 : 0), in);
            InputChecks.rank(this, 2, in[0]);
            Spec[] out = new Spec[weights];
            for (int i = 0; i < weights; i++) {
                out[i] = product().outputs(in[0], in[1 + i])[0];
                if (bias) {
                    InputChecks.type(this, DType.F32, in[biasOf(1 + i)]);
                    InputChecks.same(this, Shape.of(out[i].shape().last()), in[biasOf(1 + i)].shape());
                }
            }
            if (residual) {
                InputChecks.type(this, to, in[residualInput()]);
                InputChecks.same(this, out[0].shape(), in[residualInput()].shape());
            }
            return out;
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            Tensor[] out = new Tensor[weights];
            for (int i = 0; i < weights; i++) {
                Tensor y = bias ? biased(ops, in, i) : ops.run(product(), in[0], in[1 + i]);
                y = fn == Fn.IDENTITY ? y : ops.run(new Map(fn), y);
                out[i] = residual ? ops.add(in[residualInput()], y) : y;
            }
            return out;
        }

        /** Returns a matmul with its bias, as one operation unless this operation is the same one. */
        private Tensor biased(Ops ops, Tensor[] in, int i) {
            Linear one = new Linear(1, true, Fn.IDENTITY, false, to, int8);
            return equals(one)
                    ? ops.add(ops.run(product(), in[0], in[1]), in[biasOf(1)])
                    : ops.run(one, in[0], in[1 + i], in[biasOf(1 + i)]);
        }

        @Override
        public boolean isWhole() {
            return weights == 1 && fn == Fn.IDENTITY;
        }

        @Override
        public Saved saved(Needs needs) {
            return product().saved(needs);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            product().gradient(ops, b);
            if (bias && b.needs(biasOf(1))) {
                b.give(biasOf(1), ops.run(new Sum(Sum.Over.LEADING), b.d(0)));
            }
            if (residual) {
                b.give(residualInput(), b.d(0));
            }
        }
    }

    /**
     * (a, b, c) -> c + op(a) op(b), in the type of the matmul. Accumulates gradients that are a sum of matmuls, such as
     * the gradient of an x that several weights are applied to.
     */
    record AddMatMul(MatMul product) implements Layers {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 3, in);
            Spec[] out = product.outputs(in[0], in[1]);
            InputChecks.type(this, product.to(), in[2]);
            InputChecks.same(this, out[0].shape(), in[2].shape());
            return out;
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            return new Tensor[] {ops.add(in[2], ops.run(product, in[0], in[1]))};
        }
    }

    /** (x[..., C], y of the same shape, w[C]) -> h = x + y in the type of x, then the outputs of {@link Fused.RmsNorm} of h. */
    record AddRmsNorm(float eps) implements Layers {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 3, in);
            return sumAnd(this, new RmsNorm(eps).outputs(in[0], in[2]), in);
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            Tensor h = ops.add(in[0], in[1]);
            Tensor[] norm = ops.runAll(new RmsNorm(eps), h, in[2]);
            return new Tensor[] {h, norm[0], norm[1]};
        }
    }

    /** (x[..., C], y of the same shape, w[C], b[C]) -> h = x + y in the type of x, then the outputs of {@link Fused.LayerNorm}. */
    record AddLayerNorm(float eps) implements Layers {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 4, in);
            AddLayerNormInputs<Spec> a = AddLayerNormInputs.of(in);
            return sumAnd(this, new LayerNorm(eps).outputs(a.x(), a.w(), a.b()), in);
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            AddLayerNormInputs<Tensor> a = AddLayerNormInputs.of(in);
            Tensor h = ops.add(a.x(), a.y());
            Tensor[] norm = ops.runAll(new LayerNorm(eps), h, a.w(), a.b());
            return new Tensor[] {h, norm[0], norm[1], norm[2]};
        }
    }

    private static Spec[] sumAnd(Op op, Spec[] norm, Spec... in) {
        InputChecks.isFloat(op, in[1]);
        InputChecks.same(op, in[0].shape(), in[1].shape());
        Spec[] all = new Spec[1 + norm.length];
        all[0] = in[0];
        System.arraycopy(norm, 0, all, 1, norm.length);
        return all;
    }
}
