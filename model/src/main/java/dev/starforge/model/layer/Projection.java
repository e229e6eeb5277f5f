package dev.starforge.model.layer;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A linear layer: x[N, in] -> y[N, out]. Quantization and LoRA replace the projection, never the model that uses it.
 *
 * <p>Every projection starts with the matmul of x and one matrix, optionally with a bias. That matmul can be fused with
 * those of other projections, or with the operation that follows. {@link #update} then adds the adapters' contribution.
 */
public sealed interface Projection {
    /** Returns the weight matrix [out, in], followed by the bias [out] if there is one. */
    List<Tensor> operands();

    /** Adds the contribution of adapters to y, the matmul with {@link #operands}. */
    Tensor update(Ops ops, Tensor x, Tensor y);

    /** Applies the projection, with a result of type {@code to}. */
    default Tensor apply(Ops ops, Tensor x, DType to) {
        return update(ops, x, products(ops, x, to, this).getFirst());
    }

    /** Applies the projection, with a result of the compute type. */
    default Tensor apply(Ops ops, Tensor x) {
        return apply(ops, x, ops.precision().compute());
    }

    /** Applies the projection, with a float32 result, for logits of tokens and experts. */
    default Tensor logits(Ops ops, Tensor x) {
        return apply(ops, x, DType.F32);
    }

    /** Applies the projection and an activation function. */
    default Tensor activate(Ops ops, Fn fn, Tensor x) {
        return ops.map(fn, apply(ops, x));
    }

    /** Adds the result to a residual, in the type of the residual. */
    default Tensor addTo(Ops ops, Tensor residual, Tensor x) {
        return ops.add(residual, apply(ops, x));
    }

    /** Applies several projections to the same x, fused if possible. */
    static List<Tensor> applyAll(Ops ops, Tensor x, Projection... projections) {
        List<Tensor> ys = new ArrayList<>(products(ops, x, ops.precision().compute(), projections));
        for (int i = 0; i < projections.length; i++) {
            ys.set(i, projections[i].update(ops, x, ys.get(i)));
        }
        return ys;
    }

    /** Computes the matmuls of several projections: in one operation if all have biases or none has. */
    private static List<Tensor> products(Ops ops, Tensor x, DType to, Projection... projections) {
        List<Tensor> weights = new ArrayList<>();
        List<Tensor> biases = new ArrayList<>();
        for (Projection each : projections) {
            List<Tensor> operands = each.operands();
            weights.add(operands.getFirst());
            biases.addAll(operands.subList(1, operands.size()));
        }
        if (weights.size() == 1 && biases.isEmpty()) {
            return List.of(ops.project(x, weights.getFirst(), to));
        }
        if (!biases.isEmpty() && biases.size() != weights.size()) {
            return Arrays.stream(projections)
                    .map(each -> products(ops, x, to, each).getFirst())
                    .toList();
        }
        Layers.Linear op = new Layers.Linear(
                weights.size(),
                !biases.isEmpty(),
                Fn.IDENTITY,
                false,
                to,
                ops.precision().int8Activations());
        return ops.linear(op, x, weights, biases);
    }

    /** Returns the effective weight matrix [out, in] in float32, adapters included. */
    Tensor weight(Ops ops);

    /** x W^T, plus a bias if there is one. */
    record Linear(Tensor matrix, List<Tensor> bias) implements Projection {
        public Linear {
            bias = List.copyOf(bias);
            if (bias.size() > 1) {
                throw new TensorException("Linear: expected one bias or none, got " + bias.size());
            }
        }

        public Linear(Tensor matrix) {
            this(matrix, List.of());
        }

        @Override
        public List<Tensor> operands() {
            List<Tensor> operands = new ArrayList<>(List.of(matrix));
            operands.addAll(bias);
            return operands;
        }

        @Override
        public Tensor update(Ops ops, Tensor x, Tensor y) {
            return y;
        }

        @Override
        public Tensor activate(Ops ops, Fn fn, Tensor x) {
            return linear(ops, fn, ops.precision().compute(), x, List.of());
        }

        @Override
        public Tensor addTo(Ops ops, Tensor residual, Tensor x) {
            return linear(ops, Fn.IDENTITY, residual.dtype(), x, List.of(residual));
        }

        private Tensor linear(Ops ops, Fn fn, DType to, Tensor x, List<Tensor> residual) {
            List<Tensor> rest = new ArrayList<>(bias);
            rest.addAll(residual);
            Layers.Linear op = new Layers.Linear(
                    1,
                    !bias.isEmpty(),
                    fn,
                    !residual.isEmpty(),
                    to,
                    ops.precision().int8Activations());
            return ops.linear(op, x, List.of(matrix), rest).getFirst();
        }

        @Override
        public Tensor weight(Ops ops) {
            return matrix.dtype() == DType.F32 ? matrix : ops.run(new Plain.Cast(DType.F32), matrix);
        }
    }

    /** Another projection plus a bias. */
    record Biased(Projection base, Tensor bias) implements Projection {
        @Override
        public List<Tensor> operands() {
            return base.operands();
        }

        @Override
        public Tensor update(Ops ops, Tensor x, Tensor y) {
            return ops.add(base.update(ops, x, y), bias);
        }

        @Override
        public Tensor weight(Ops ops) {
            return base.weight(ops);
        }
    }

    /** Another projection plus scale * (x A^T) B^T (Hu et al. 2021). {@code site} identifies the dropout mask. */
    record LoraLinear(Projection base, Tensor a, Tensor b, float scale, int site) implements Projection {
        @Override
        public List<Tensor> operands() {
            return base.operands();
        }

        @Override
        public Tensor update(Ops ops, Tensor x, Tensor y) {
            Tensor low = ops.scale(ops.project(ops.dropout(x, site), a), scale);
            Layers.Linear sum = new Layers.Linear(1, false, Fn.IDENTITY, true, y.dtype(), false);
            return ops.linear(sum, low, List.of(b), List.of(base.update(ops, x, y)))
                    .getFirst();
        }

        @Override
        public Tensor weight(Ops ops) {
            Tensor update = ops.run(new Plain.MatMul(false, false), b, a);
            return ops.add(base.weight(ops), ops.scale(update, scale));
        }
    }

    /**
     * Another projection plus the update of each row's adapter (see {@link Ops#lora}), for multi-LoRA serving. {@link LoraLinear}
     * has one adapter for all rows, can be trained and has an effective weight matrix.
     *
     * @param a [adapters, rank, in]
     * @param b [adapters, out, rank]
     * @param scales [adapters]
     */
    record MultiLoraLinear(Projection base, Tensor a, Tensor b, Tensor scales) implements Projection {
        @Override
        public List<Tensor> operands() {
            return base.operands();
        }

        @Override
        public Tensor update(Ops ops, Tensor x, Tensor y) {
            return ops.lora(base.update(ops, x, y), x, a, b, scales);
        }

        @Override
        public Tensor weight(Ops ops) {
            throw new TensorException("weight: a projection with a table of " + a.dim(0)
                    + " adapters has no single weight matrix; load the model with one adapter, or merge it");
        }
    }

    /**
     * DoRA (Liu et al. 2024): the rows of W + scale * B A, normalized and scaled by {@code magnitude}. W is another projection
     * without bias. The row norms are constants for the backward pass, as in PEFT: the tape does not track views of a and b.
     */
    record DoraLinear(Projection base, Tensor a, Tensor b, Tensor magnitude, float scale, int site)
            implements Projection {
        @Override
        public List<Tensor> operands() {
            return base.operands();
        }

        @Override
        public Tensor update(Ops ops, Tensor x, Tensor y) {
            Tensor factor = ops.block(magnitude, (o, m) -> factor(o, m));
            Tensor dropped = ops.dropout(x, site);
            Tensor update = ops.scale(ops.project(ops.project(dropped, a), b), scale);
            Tensor plain = base.update(ops, x, y);
            if (dropped == x) {
                return ops.mul(ops.add(plain, update), factor);
            }
            Tensor other = base.apply(ops, dropped, y.dtype());
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
