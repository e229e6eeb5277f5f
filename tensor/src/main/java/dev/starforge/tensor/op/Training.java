package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.op.Operands.AdamW8Inputs;
import dev.starforge.tensor.op.Operands.NoiseInputs;

/**
 * Operations for training only: gradient accumulation, dropout, noise and the 8-bit optimizer. Every backend has its
 * own kernels for them, and each is defined to the bit in float32, so all backends give the same result.
 *
 * <p>Random numbers are a function of (Philox counters): (key i32[2], samples i32[N], positions i32[N], site, channel).
 * It does not depend on the position of a token in the batch, so a step has the same noise however it is cut into
 * batches. The random number of channel c at position p of sample n is word c % 4 of the counter (c / 4, p, n, site),
 * its upper 24 bits as a fraction.
 */
public sealed interface Training extends Op {
    /** (sum overwritten, in float32, x): sum += x. No output. */
    record Accumulate() implements Training {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 2, in);
            InputChecks.type(this, DType.F32, in[0]);
            InputChecks.isFloat(this, in[1]);
            InputChecks.same(this, in[0].shape(), in[1].shape());
            return new Spec[0];
        }

        @Override
        public boolean mutates(int input) {
            return input == 0;
        }
    }

    /**
     * (x[N, C], samples, positions, key) -> x with every element zero with probability {@code rate}, and divided by
     * 1 - rate otherwise (Srivastava et al. 2014).
     */
    record Dropout(float rate, int site) implements Training {
        public Dropout {
            if (!(rate >= 0 && rate < 1)) {
                throw new ShapeException("Dropout: rate " + rate + ": expected at least 0 and below 1");
            }
        }

        /** The factor of elements that are kept. */
        public float scale() {
            return 1 / (1 - rate);
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 4, in);
            noise(this, NoiseInputs.of(in));
            return new Spec[] {in[0]};
        }

        @Override
        public Saved saved(Needs needs) {
            return Saved.in(1, 2, 3);
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, ops.run(this, b.d(0), b.in(1), b.in(2), b.in(3)));
        }
    }

    /**
     * (x[N, C], samples, positions, key, magnitudes[N]) -> x[n] + magnitudes[n] * u with u uniform in [-1, 1) for every
     * element, which is what NEFTune adds to embeddings (Jain et al. 2023).
     */
    record Noise(int site) implements Training {
        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 5, in);
            Spec magnitudes = in[4];
            noise(this, NoiseInputs.of(in));
            InputChecks.type(this, DType.F32, magnitudes);
            InputChecks.same(this, in[1].shape(), magnitudes.shape());
            return new Spec[] {in[0]};
        }

        @Override
        public void gradient(Ops ops, Backward b) {
            b.give(0, b.d(0));
        }
    }

    /**
     * {@link Plain.AdamW} with moments of 8 bits (Dettmers et al. 2022): (parameter, m quants, v quants, scales overwritten,
     * gradient, norm[1], rate[3]). The flat elements are cut into blocks of {@value #BLOCK}; a moment is its block's scale,
     * the largest absolute value in it, times a number of {@link dev.starforge.tensor.codec.DynamicMap}. Codes are
     * i32[blocks * BLOCK / 4], four to an element with the first in the lowest byte; scales are [2, blocks], those of m
     * first. The step itself uses the moments before they are rounded again. Every operation is rounded once, in the order
     * m + (1 - beta1)(g - m), v + (1 - beta2)(g * g - v), p - lr (decay * p + m / rate[1] / (sqrt(v / rate[2]) + eps)).
     * A norm that is not finite changes nothing.
     */
    record AdamW8(double beta1, double beta2, double eps, double weightDecay, double maxNorm) implements Training {
        public static final int BLOCK = 256;

        public static long blocks(Shape parameter) {
            return (parameter.size() + BLOCK - 1) / BLOCK;
        }

        public static Spec quants(Shape parameter) {
            return Spec.i32(blocks(parameter) * BLOCK / 4);
        }

        public static Spec scales(Shape parameter) {
            return Spec.f32(2, blocks(parameter));
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 7, in);
            AdamW8Inputs<Spec> a = AdamW8Inputs.of(in);
            InputChecks.type(this, DType.F32, a.parameter(), a.scales(), a.gradient(), a.norm(), a.rate());
            InputChecks.type(this, DType.I32, a.m(), a.v());
            InputChecks.same(this, quants(a.parameter().shape()).shape(), a.m().shape());
            InputChecks.same(this, quants(a.parameter().shape()).shape(), a.v().shape());
            InputChecks.same(
                    this, scales(a.parameter().shape()).shape(), a.scales().shape());
            InputChecks.same(this, a.parameter().shape(), a.gradient().shape());
            InputChecks.same(this, Shape.of(1), a.norm().shape());
            InputChecks.same(this, Shape.of(3), a.rate().shape());
            return new Spec[0];
        }

        @Override
        public boolean mutates(int input) {
            return input < 4;
        }
    }

    private static void noise(Op op, NoiseInputs<Spec> in) {
        InputChecks.isFloat(op, in.x());
        InputChecks.rank(op, 2, in.x());
        InputChecks.type(op, DType.I32, in.samples(), in.positions(), in.key());
        InputChecks.same(op, Shape.of(in.x().shape().dim(0)), in.samples().shape());
        InputChecks.same(op, in.samples().shape(), in.positions().shape());
        InputChecks.same(op, Shape.of(2), in.key().shape());
    }
}
