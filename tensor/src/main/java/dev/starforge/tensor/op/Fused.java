package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Operands.AttentionGradInputs;
import dev.starforge.tensor.op.Operands.AttentionInputs;
import dev.starforge.tensor.op.Operands.CrossEntropyGradInputs;
import dev.starforge.tensor.op.Operands.LayerNormGradInputs;
import dev.starforge.tensor.op.Operands.RmsNormGradInputs;
import dev.starforge.tensor.op.Plain.Affine;
import dev.starforge.tensor.op.Plain.Cast;
import dev.starforge.tensor.op.Plain.Concat;
import dev.starforge.tensor.op.Plain.Gather;
import dev.starforge.tensor.op.Plain.LogSumExp;
import dev.starforge.tensor.op.Plain.Map;
import dev.starforge.tensor.op.Plain.Mask;
import dev.starforge.tensor.op.Plain.MatMul;
import dev.starforge.tensor.op.Plain.Permute;
import dev.starforge.tensor.op.Plain.Pick;
import dev.starforge.tensor.op.Plain.Slice;
import dev.starforge.tensor.op.Plain.Softmax;
import dev.starforge.tensor.op.Plain.Sum;
import java.util.Arrays;

/**
 * Operations that a backend may run as one kernel. The expansion into plain operations is the definition, the fallback
 * on the same device, and the reference for tests. Only forward expansions are written by hand: a gradient operation
 * expands to the taped gradient of the forward expansion. 16-bit activations are cast to float32 first and back last,
 * so that an expansion also rounds once. Gradients of activations have the type of the incoming gradient; gradients of
 * weights are float32.
 */
public sealed interface Fused extends Op
        permits Fused.LayerNorm,
                Fused.LayerNormGrad,
                Fused.RmsNorm,
                Fused.RmsNormGrad,
                Fused.Rope,
                Fused.Gated,
                Fused.GatedGrad,
                Fused.CrossEntropy,
                Fused.CrossEntropyGrad,
                Fused.Attention,
                Fused.AttentionGrad,
                Adapters,
                Layers {
    /** Computes all outputs with other operations. */
    Tensor[] expand(Ops ops, Tensor... in);

    /** By default the gradient is that of the expansion. */
    @Override
    default Saved saved(Needs needs) {
        return Saved.ALL_INPUTS;
    }

    @Override
    default void gradient(Ops ops, Backward b) {
        Tensor[] in = inputs(b, b.inputs());
        Tensor[] gradients = Tape.gradientOfExpansion(this, ops, in, b.d(0), b);
        int next = 0;
        for (int i = 0; i < in.length; i++) {
            if (b.needs(i)) {
                b.give(i, gradients[next++]);
            }
        }
    }

    /** Returns the first {@code count} inputs, all of them saved. */
    private static Tensor[] inputs(Backward b, int count) {
        Tensor[] in = new Tensor[count];
        for (int i = 0; i < count; i++) {
            in[i] = b.in(i);
        }
        return in;
    }

    private static Tensor[] take(Tensor[] from, int count) {
        return Arrays.copyOf(from, count);
    }

    private static Tensor wide(Ops ops, Tensor x) {
        return ops.cast(x, DType.F32);
    }

    /** Returns the taped gradient of a forward expansion, in the types that the gradient operation declares. */
    private static Tensor[] taped(Op op, Fused forward, Ops ops, Tensor[] in, int inputs, Tensor d, Needs needs) {
        Spec[] outputs = op.outputs(Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new));
        Tensor[] gradients = Tape.gradientOfExpansion(forward, ops, take(in, inputs), d, needs);
        for (int i = 0; i < gradients.length; i++) {
            gradients[i] = ops.cast(gradients[i], outputs[i].dtype());
        }
        return gradients;
    }

    /** Returns the spec of x in the type of its gradient. */
    private static Spec like(Spec x, Spec d) {
        return new Spec(d.dtype(), x.shape());
    }

    private static Tensor mean(Ops ops, Tensor x) {
        return ops.run(new Affine(1f / Math.max(1, x.shape().last()), 0), ops.run(new Sum(Sum.Over.LAST), x));
    }

    private static Tensor rsqrt(Ops ops, Tensor meanSquare, float eps) {
        return ops.run(new Map(Fn.RSQRT), ops.run(new Affine(1, eps), meanSquare));
    }

    /** (x[..., C], w[C], b[C]) -> y, mean[rows], rstd[rows]: (x - mean) * rstd * w + b (Ba et al. 2016). */
    record LayerNorm(float eps) implements Fused {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 3, in);
            InputChecks.isFloat(this, in[0]);
            InputChecks.type(this, DType.F32, in[1], in[2]);
            Shape row = Shape.of(in[0].shape().last());
            InputChecks.same(this, row, in[1].shape());
            InputChecks.same(this, row, in[2].shape());
            Spec statistic = Spec.f32(in[0].shape().rows());
            return new Spec[] {in[0], statistic, statistic};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            Tensor x = wide(ops, in[0]);
            Shape rows = Shape.of(x.shape().rows());
            Tensor mean = mean(ops, x);
            Tensor centered = ops.add(x, ops.scale(mean, -1));
            Tensor rstd = rsqrt(ops, mean(ops, ops.mul(centered, centered)), eps);
            Tensor y = ops.add(ops.mul(ops.mul(centered, rstd), in[1]), in[2]);
            return new Tensor[] {ops.cast(y, in[0].dtype()), ops.reshape(mean, rows), ops.reshape(rstd, rows)};
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(0, 1, 2).andOut(1, 2);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            boolean weights = b.needs(1) || b.needs(2);
            Tensor[] d =
                    ops.runAll(new LayerNormGrad(eps, weights), b.in(0), b.in(1), b.in(2), b.out(1), b.out(2), b.d(0));
            b.give(0, d[0]);
            if (weights) {
                b.give(1, d[1]);
                b.give(2, d[2]);
            }
        }
    }

    /** (x, w, b, mean, rstd, dy) -> dx, and dw, db when the weights are trained. */
    record LayerNormGrad(float eps, boolean weights) implements Fused {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 6, in);
            LayerNormGradInputs<Spec> g = LayerNormGradInputs.of(in);
            new LayerNorm(eps).outputs(g.x(), g.w(), g.b());
            InputChecks.type(this, DType.F32, g.mean(), g.rstd());
            InputChecks.isFloat(this, g.dy());
            InputChecks.same(this, g.x().shape(), g.dy().shape());
            return weights ? new Spec[] {g.dy(), g.w(), g.b()} : new Spec[] {g.dy()};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            return taped(
                    this,
                    new LayerNorm(eps),
                    ops,
                    in,
                    3,
                    LayerNormGradInputs.of(in).dy(),
                    input -> input == 0 || weights);
        }
    }

    /** (x[..., C], w[C]) -> y, rstd[rows]: x * rstd * w (Zhang and Sennrich 2019). */
    record RmsNorm(float eps) implements Fused {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.isFloat(this, in[0]);
            InputChecks.type(this, DType.F32, in[1]);
            InputChecks.same(this, Shape.of(in[0].shape().last()), in[1].shape());
            return new Spec[] {in[0], Spec.f32(in[0].shape().rows())};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            Tensor x = wide(ops, in[0]);
            Tensor rstd = rsqrt(ops, mean(ops, ops.mul(x, x)), eps);
            Tensor y = ops.mul(ops.mul(x, rstd), in[1]);
            return new Tensor[] {
                ops.cast(y, in[0].dtype()), ops.reshape(rstd, Shape.of(x.shape().rows()))
            };
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(0, 1).andOut(1);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            Tensor[] d = ops.runAll(new RmsNormGrad(eps, b.needs(1)), b.in(0), b.in(1), b.out(1), b.d(0));
            b.give(0, d[0]);
            if (b.needs(1)) {
                b.give(1, d[1]);
            }
        }
    }

    /** (x, w, rstd, dy) -> dx, and dw when the weight is trained. */
    record RmsNormGrad(float eps, boolean weights) implements Fused {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 4, in);
            RmsNormGradInputs<Spec> g = RmsNormGradInputs.of(in);
            new RmsNorm(eps).outputs(g.x(), g.w());
            InputChecks.type(this, DType.F32, g.rstd());
            InputChecks.isFloat(this, g.dy());
            InputChecks.same(this, g.x().shape(), g.dy().shape());
            return weights ? new Spec[] {g.dy(), g.w()} : new Spec[] {g.dy()};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            return taped(
                    this, new RmsNorm(eps), ops, in, 2, RmsNormGradInputs.of(in).dy(), input -> input == 0 || weights);
        }
    }

    /**
     * Rotary positions (Su et al. 2021). (x[N, H, D], positions i32[N], frequencies[R/2], R <= D) -> x with dimensions
     * 0..R-1 of every head rotated by positions * frequencies and scaled by {@code magnitude}, the rest copied. Pairs are
     * (i, i + R/2), as HF stores them; {@code inverse} rotates the other way, which is the gradient.
     */
    record Rope(float magnitude, boolean inverse) implements Fused {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 3, in);
            InputChecks.isFloat(this, in[0]);
            InputChecks.type(this, DType.I32, in[1]);
            InputChecks.type(this, DType.F32, in[2]);
            InputChecks.rank(this, 3, in[0]);
            InputChecks.rank(this, 1, in[2]);
            InputChecks.same(this, Shape.of(in[0].shape().dim(0)), in[1].shape());
            if (2 * in[2].shape().size() > in[0].shape().last()) {
                throw new ShapeException("Rope: " + in[2].shape().size() + " frequencies rotate more than the "
                        + in[0].shape().last() + " dimensions of a head");
            }
            return new Spec[] {in[0]};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            long tokens = in[0].dim(0);
            long half = in[2].shape().size();
            long d = in[0].dim(2);
            Tensor position = ops.reshape(ops.run(new Cast(DType.F32), in[1]), Shape.of(1, tokens));
            Tensor angle = ops.reshape(
                    ops.run(new MatMul(false, false), ops.reshape(in[2], Shape.of(half, 1)), position),
                    Shape.of(half, tokens, 1));
            Tensor cos = ops.scale(ops.run(new Map(Fn.COS), angle), magnitude);
            Tensor sin = ops.scale(ops.run(new Map(Fn.SIN), angle), inverse ? -magnitude : magnitude);
            Tensor x = ops.run(Permute.of(2, 0, 1), wide(ops, in[0])); // [D, N, H]
            Tensor x1 = ops.run(new Slice(0, half), x);
            Tensor x2 = ops.run(new Slice(half, 2 * half), x);
            Tensor y1 = ops.add(ops.mul(x1, cos), ops.scale(ops.mul(x2, sin), -1));
            Tensor y2 = ops.add(ops.mul(x2, cos), ops.mul(x1, sin));
            Tensor y = ops.run(new Concat(), y1, y2, ops.run(new Slice(2 * half, d), x));
            return new Tensor[] {ops.cast(ops.run(Permute.of(1, 2, 0), y), in[0].dtype())};
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(1, 2);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.run(new Rope(magnitude, !inverse), b.d(0), b.in(1), b.in(2)));
        }
    }

    /** (gate, up) -> fn(gate) * up in the type of gate, the middle of a gated MLP (Shazeer 2020). */
    record Gated(Fn fn) implements Fused {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.isFloat(this, in);
            InputChecks.same(this, in[0].shape(), in[1].shape());
            return new Spec[] {in[0]};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            Tensor y = ops.mul(ops.run(new Map(fn), wide(ops, in[0])), in[1]);
            return new Tensor[] {ops.cast(y, in[0].dtype())};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            Tensor[] d = ops.runAll(new GatedGrad(fn), b.in(0), b.in(1), b.d(0));
            b.give(0, d[0]);
            b.give(1, d[1]);
        }
    }

    /** (gate, up, dy) -> dgate, dup. */
    record GatedGrad(Fn fn) implements Fused {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 3, in);
            new Gated(fn).outputs(in[0], in[1]);
            InputChecks.isFloat(this, in[2]);
            InputChecks.same(this, in[0].shape(), in[2].shape());
            return new Spec[] {in[2], in[2]};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            return taped(this, new Gated(fn), ops, in, 2, in[2], input -> true);
        }
    }

    /**
     * (logits[N, V], labels i32[N], weights[N]) -> losses[N], lse[N]: weights[n] * -log softmax(logits[n])[labels[n]].
     * The weight includes the divisor of the mean and curriculum weights. It is 0 for ignored tokens, whose labels may
     * have any value.
     */
    record CrossEntropy() implements Fused {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 3, in);
            InputChecks.type(this, DType.F32, in[0], in[2]);
            InputChecks.type(this, DType.I32, in[1]);
            InputChecks.rank(this, 2, in[0]);
            Shape rows = Shape.of(in[0].shape().dim(0));
            InputChecks.same(this, rows, in[1].shape());
            InputChecks.same(this, rows, in[2].shape());
            Spec row = new Spec(DType.F32, rows);
            return new Spec[] {row, row};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            Shape rows = in[1].shape();
            Tensor lse = ops.run(new LogSumExp(), in[0]);
            Tensor nll = ops.add(lse, ops.scale(ops.run(new Pick(), in[0], in[1]), -1));
            return new Tensor[] {ops.mul(ops.reshape(nll, rows), in[2]), ops.reshape(lse, rows)};
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(0, 1, 2).andOut(1);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            Op gradient = new CrossEntropyGrad(b.gradientType(0));
            b.give(0, ops.run(gradient, b.in(0), b.in(1), b.in(2), b.out(1), b.d(0)));
        }
    }

    /** (logits, labels, weights, lse, dlosses) -> dlogits of type {@code to}: weight * dloss * (softmax - one hot). */
    record CrossEntropyGrad(DType to) implements Fused {
        public CrossEntropyGrad {
            InputChecks.isFloat("CrossEntropyGrad", to);
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 5, in);
            CrossEntropyGradInputs<Spec> g = CrossEntropyGradInputs.of(in);
            Spec[] forward = new CrossEntropy().outputs(g.logits(), g.labels(), g.weights());
            InputChecks.same(this, forward[1].shape(), g.lse().shape());
            InputChecks.same(this, forward[0].shape(), g.dlosses().shape());
            return new Spec[] {new Spec(to, g.logits().shape())};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            return taped(
                    this,
                    new CrossEntropy(),
                    ops,
                    in,
                    3,
                    CrossEntropyGradInputs.of(in).dlosses(),
                    input -> input == 0);
        }
    }

    /**
     * Causal grouped-query attention over a ragged batch with a paged KV cache. (q[N, H, D], k[R, Hk, D], v[R, Hk, D],
     * starts i32[S + 1], positions i32[N], tables i32[S, M]) -> y[N, H, D], lse[N, H].
     *
     * <p>Queries starts[s]..starts[s+1]-1 belong to sequence s; the key at position p of s is in row tables[s, p /
     * block] * block + p % block. The query at position t sees positions max(0, t - window + 1)..t, or 0..t when window
     * is 0. k and v have the same type; y has the type of q. If k and v are i8, two more inputs follow: the scales
     * f16[R, Hk] of k and of v, as {@link Decoding.StoreInt8} writes them. All rows of k and v must be finite, also
     * those that no query sees. Packed training uses block 1 and a table of row numbers; there no row may belong to two
     * sequences, so that its gradient has one writer.
     */
    record Attention(float scale, int window, int block) implements Fused {
        public Attention {
            InputChecks.paging(window, block);
        }

        @Override
        public Spec[] outputs(Spec... in) {
            boolean int8 = in.length > 1 && in[1].dtype() == DType.I8;
            InputChecks.count(this, int8 ? 8 : 6, in);
            AttentionInputs<Spec> a = AttentionInputs.of(in);
            InputChecks.isFloat(this, a.q());
            InputChecks.rank(this, 3, a.q());
            InputChecks.rank(this, 3, a.k());
            if (int8) {
                Decoding.checkInt8Cache(this, a.k(), a.kScales());
                Decoding.checkInt8Cache(this, a.v(), a.vScales());
            } else {
                InputChecks.isFloat(this, a.k());
            }
            InputChecks.type(this, a.k().dtype(), a.v());
            InputChecks.same(this, a.k().shape(), a.v().shape());
            Shape q = a.q().shape();
            Shape k = a.k().shape();
            if (q.dim(2) != k.dim(2) || k.dim(1) == 0 || q.dim(1) % k.dim(1) != 0) {
                throw new ShapeException("Attention: heads " + q + " do not group over keys " + k);
            }
            if (k.dim(0) % block != 0) {
                throw new ShapeException("Attention: " + k.dim(0) + " rows of keys are not whole blocks of " + block);
            }
            InputChecks.ragged(this, q.dim(0), a.starts(), a.positions(), a.tables());
            return new Spec[] {a.q(), Spec.f32(q.dim(0), q.dim(1))};
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            AttentionInputs<Tensor> a = AttentionInputs.of(in);
            long n = a.q().dim(0);
            long h = a.q().dim(1);
            long d = a.q().dim(2);
            long hk = a.k().dim(1);
            long group = h / hk;
            long rows = a.k().dim(0);
            long keys = a.tables().shape().size() * block; // S * L
            Shape blocks = Shape.of(rows / block, block * hk * d);
            Tensor table = ops.reshape(a.tables(), Shape.of(a.tables().shape().size()));
            Tensor q = ops.reshape(
                    ops.run(Permute.of(1, 2, 0, 3), ops.reshape(wide(ops, a.q()), Shape.of(n, hk, group, d))),
                    Shape.of(hk, group * n, d));
            Shape perKey = Shape.of(keys, hk, d);
            Tensor cachedK = a.isInt8() ? ops.decoded(a.k(), a.kScales()) : a.k();
            Tensor cachedV = a.isInt8() ? ops.decoded(a.v(), a.vScales()) : a.v();
            Tensor k = ops.reshape(ops.run(new Gather(), ops.reshape(cachedK, blocks), table), perKey);
            Tensor v = ops.reshape(ops.run(new Gather(), ops.reshape(cachedV, blocks), table), perKey);
            Tensor scores = ops.scale(ops.run(new MatMul(false, true), q, ops.run(Permute.of(1, 0, 2), k)), scale);
            Tensor masked = ops.run(
                    new Mask(window, block),
                    ops.reshape(scores, Shape.of(h, n, keys)),
                    a.starts(),
                    a.positions(),
                    a.tables());
            Tensor p = ops.reshape(ops.run(new Softmax(), masked), Shape.of(hk, group * n, keys));
            Tensor y = ops.run(new MatMul(false, false), p, ops.run(Permute.of(1, 0, 2), v));
            Tensor back = ops.run(Permute.of(2, 0, 1, 3), ops.reshape(y, Shape.of(hk, group, n, d)));
            Tensor lse = ops.reshape(ops.run(new LogSumExp(), masked), Shape.of(h, n));
            return new Tensor[] {
                ops.cast(ops.reshape(back, Shape.of(n, h, d)), a.q().dtype()), ops.run(Permute.of(1, 0), lse)
            };
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(0, 1, 2, 3, 4, 5).andOut(0, 1);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            Tensor[] in = Arrays.copyOf(inputs(b, 6), 9);
            in[6] = b.out(0);
            in[7] = b.out(1);
            in[8] = b.d(0);
            Tensor[] d = ops.runAll(new AttentionGrad(scale, window, block), in);
            for (int i = 0; i < 3; i++) {
                b.give(i, d[i]);
            }
        }
    }

    /** (the six inputs of Attention, y, lse, dy) -> dq, dk, dv; rows of k and v that no query may see get zero. */
    record AttentionGrad(float scale, int window, int block) implements Fused {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 9, in);
            AttentionGradInputs<Spec> g = AttentionGradInputs.of(in);
            Spec[] forward = new Attention(scale, window, block).outputs(Arrays.copyOf(in, 6));
            InputChecks.type(this, DType.F32, g.lse());
            InputChecks.isFloat(this, g.y(), g.dy());
            InputChecks.same(this, forward[0].shape(), g.y().shape());
            InputChecks.same(this, forward[1].shape(), g.lse().shape());
            InputChecks.same(this, forward[0].shape(), g.dy().shape());
            return new Spec[] {
                like(g.forward().q(), g.dy()),
                like(g.forward().k(), g.dy()),
                like(g.forward().v(), g.dy())
            };
        }

        @Override
        public Tensor[] expand(Ops ops, Tensor... in) {
            return taped(
                    this,
                    new Attention(scale, window, block),
                    ops,
                    in,
                    6,
                    AttentionGradInputs.of(in).dy(),
                    input -> input < 3);
        }
    }
}
