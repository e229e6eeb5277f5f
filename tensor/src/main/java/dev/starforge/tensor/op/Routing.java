package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;

/**
 * Operations for mixtures of experts: top-k routing, grouping by expert, and grouped GEMM. Every backend has its own kernels
 * for them. No shape depends on the routing; the number of rows of an expert is data.
 */
public sealed interface Routing extends Op {
    /**
     * Chooses experts: scores[N, E] -> i32[N, k], the k highest in descending order, ties by lower index; NaN is the
     * lowest. With more than one group, the experts are divided into {@code groups} equal groups, and experts are
     * chosen only from the {@code kept} groups with the highest sum of their {@code votes} best scores, added in double
     * (DeepSeek-AI 2024); groups with a NaN rank last.
     */
    record Route(int k, int groups, int kept, int votes) implements Routing {
        public Route {
            if (k < 1 || groups < 1 || kept < 1 || kept > groups || votes < 1) {
                throw new ShapeException(
                        "Route: k " + k + ", groups " + groups + ", kept " + kept + ", votes " + votes);
            }
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.type(this, DType.F32, in);
            InputChecks.rank(this, 2, in[0]);
            long experts = in[0].shape().last();
            if (experts % groups != 0 || k > experts / groups * kept || votes > experts / groups) {
                throw new ShapeException("Route: " + k + " of " + experts + " experts in " + kept + " of " + groups
                        + " groups with " + votes + " votes");
            }
            return new Spec[] {Spec.i32(in[0].shape().dim(0), k)};
        }
    }

    /**
     * Sorts the routed tokens by expert: experts i32[N, k] -> order i32[N * k], tokens i32[N * k], offsets i32[E + 1].
     * Choice order[i] (n * k + slot, ascending within an expert) is the i-th, made by token tokens[i] = order[i] / k;
     * those of expert e are offsets[e]..offsets[e + 1]-1.
     */
    record Group(int experts) implements Routing {
        public Group {
            if (experts < 1) {
                throw new ShapeException("Group: " + experts + " experts");
            }
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 1, in);
            InputChecks.type(this, DType.I32, in);
            InputChecks.rank(this, 2, in[0]);
            Spec choices = Spec.i32(in[0].shape().size());
            return new Spec[] {choices, choices, Spec.i32(experts + 1L)};
        }
    }

    /**
     * Grouped matmul, one per expert: (x[R, in], w[E, out, in], offsets i32[E + 1]) -> [R, out], where rows offsets[e]
     * to offsets[e + 1]-1 of x are multiplied with w[e]; without {@code transposeB} w is [E, in, out]. w may be
     * quantized; {@code to} and {@code int8} as in {@link Plain.MatMul}.
     */
    record ExpertMatMul(boolean transposeB, DType to, boolean int8) implements Routing {
        public ExpertMatMul {
            InputChecks.isFloat("ExpertMatMul", to);
        }

        public ExpertMatMul(boolean transposeB, DType to) {
            this(transposeB, to, false);
        }

        /** A grouped matmul with float32 output. */
        public ExpertMatMul(boolean transposeB) {
            this(transposeB, DType.F32);
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 3, in);
            InputChecks.isFloat(this, in[0]);
            InputChecks.weight(this, in[1]);
            InputChecks.type(this, DType.I32, in[2]);
            InputChecks.rank(this, 2, in[0]);
            InputChecks.rank(this, 3, in[1]);
            Shape w = in[1].shape();
            InputChecks.same(this, Shape.of(w.dim(0) + 1), in[2].shape());
            if (in[0].shape().last() != w.dim(transposeB ? 2 : 1)) {
                throw new ShapeException("ExpertMatMul: " + in[0].shape() + " x " + w + (transposeB ? "^T" : ""));
            }
            return new Spec[] {new Spec(to, Shape.of(in[0].shape().dim(0), w.dim(transposeB ? 1 : 2)))};
        }

        @Override
        public Saved saved(Needs needs) {
            Saved saved = needs.needs(0) ? Saved.in(1, 2) : Saved.in(2);
            return needs.needs(1) ? saved.andIn(0) : saved;
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            if (b.needs(0)) {
                b.give(0, ops.run(new ExpertMatMul(!transposeB, b.gradientType(0)), b.d(0), b.in(1), b.in(2)));
            }
            if (b.needs(1)) {
                Tensor rows = transposeB ? b.d(0) : b.in(0);
                Tensor columns = transposeB ? b.in(0) : b.d(0);
                b.give(1, ops.run(new ExpertOuter(), rows, columns, b.in(2)));
            }
        }
    }

    /** (a[R, m], b[R, n], offsets i32[E + 1]) -> float32 [E, m, n]: for each expert the sum of a^T b over its rows. */
    record ExpertOuter() implements Routing {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 3, in);
            InputChecks.isFloat(this, in[0], in[1]);
            InputChecks.type(this, DType.I32, in[2]);
            InputChecks.rank(this, 2, in[0]);
            InputChecks.rank(this, 1, in[2]);
            InputChecks.same(this, in[0].shape().withLast(in[1].shape().last()), in[1].shape());
            return new Spec[] {
                Spec.f32(
                        in[2].shape().size() - 1,
                        in[0].shape().last(),
                        in[1].shape().last())
            };
        }
    }
}
