package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.TokenWeights;
import dev.starforge.tensor.op.Operands.SampleInputs;
import dev.starforge.tensor.op.Operands.StoreInt8Inputs;
import java.util.List;

/**
 * Operations for decoding: sampling and the int8 KV cache. Every backend has its own kernels for them, as for
 * {@link Plain}.
 */
public sealed interface Decoding extends Op {
    /**
     * (values i8[R, H, D] and scales f16[R, H] overwritten, rows i32[N], x[N, H, D]): writes x[n] to row rows[n] as int8 with
     * one scale per head. The scale is max |x| / 127 in float32, rounded to the nearest finite f16. A value is x / scale,
     * rounded to even and clamped to -127..127, or 0 if the scale is 0. Storing dequantized values again gives the same bits.
     * No output.
     */
    record StoreInt8() implements Decoding {
        public static final int MAX_VALUE = 127;

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 4, in);
            StoreInt8Inputs<Spec> s = StoreInt8Inputs.of(in);
            checkInt8Cache(this, s.values(), s.scales());
            InputChecks.type(this, DType.I32, s.rows());
            InputChecks.isFloat(this, s.x());
            InputChecks.same(this, s.values().shape().withFirst(s.rows().shape().size()), s.x().shape());
            return new Spec[0];
        }

        @Override
        public boolean mutates(int input) {
            return input < 2;
        }
    }

    /** Checks an int8 cache: values[R, H, D], scales[R, H]. */
    static void checkInt8Cache(Op op, Spec codes, Spec scales) {
        InputChecks.type(op, DType.I8, codes);
        InputChecks.type(op, DType.F16, scales);
        InputChecks.rank(op, 3, codes);
        InputChecks.same(op, Shape.of(codes.shape().dim(0), codes.shape().dim(1)), scales.shape());
    }

    /** Slot of a row without token history: no penalties apply and no token is counted. */
    int NO_HISTORY = -1;

    /** Slot of a padding row, as is any number below {@link #NO_HISTORY}. */
    int SKIPPED = -2;

    /** Use count of a token that does not occur; 0 is a token of the prompt only, n a token generated n times. */
    int NEVER = -1;

    /** Token id of a row for which no token was sampled, and of an unused entry of the biased ids. */
    int NO_TOKEN = -1;

    /** The sampling parameters of a row, in the order in which they apply. */
    enum SamplerSetting {
        REPETITION_PENALTY,
        PRESENCE_PENALTY,
        FREQUENCY_PENALTY,
        /** 0 is greedy decoding. */
        TEMPERATURE,
        /** 0 disables top-k. */
        TOP_K,
        /** 1 - top_p, which float32 represents more precisely near 0 than top_p near 1. */
        TAIL,
        MIN_P,
        TYPICAL_P;

        /** Number of columns. */
        public static final int COUNT = values().length;
    }

    /**
     * Samples the next token of R sequences: (logits[R, V], settings[R, {@link SamplerSetting#COUNT}], draws i32[R, 3], slots i32[R],
     * uses i32[S, V] overwritten, biased i32[R, B], bias[R, B], allowed i32[R, W]) -> token i32[R], its log-probability[R],
     * and the {@code top} most probable ids i32[R, top] with their log-probabilities[R, top].
     *
     * <p>Scores are logits plus bias (biased ids one after the other; a negative one is none), then penalized by the uses of
     * the row's slot, then -infinity where bit id % 32 of word id / 32 of {@code allowed} is 0 (W = 0 allows all). They go
     * through temperature, top-k, top-p, min-p and typical as HF has them, and the token is drawn for (seed low, seed high,
     * index of the token in its text), which is what {@code draws} holds. All of that is {@link TokenWeights}, to the bit. The
     * chosen token is counted in the row's slot; no two rows may share one. Log-probabilities are of the model's own
     * distribution, log-softmax of the logits; of equals the lower id comes first.
     *
     * <p>There is no token where nothing is allowed, where every score is -infinity, and where a logit or a score is NaN or
     * +infinity, nor in a skipped row: token and ids are then {@link #NO_TOKEN}, log-probabilities 0, and nothing is counted.
     */
    record Sample(int top) implements Decoding {
        /** Index of the input that is overwritten. */
        private static final int USES = 4;

        public Sample {
            if (top < 0) {
                throw new ShapeException("Sample: top " + top + ": expected at least 0");
            }
        }

        /** Words of {@code allowed} for a vocabulary. */
        public static long words(long vocabulary) {
            return (vocabulary + Integer.SIZE - 1) / Integer.SIZE;
        }

        @Override
        public Spec[] outputs(Spec... in) {
            InputChecks.count(this, 8, in);
            SampleInputs<Spec> s = SampleInputs.of(in);
            InputChecks.type(this, DType.F32, s.logits(), s.settings(), s.bias());
            InputChecks.type(this, DType.I32, s.draws(), s.slots(), s.uses(), s.biased(), s.allowed());
            for (Spec matrix : List.of(s.logits(), s.uses(), s.biased(), s.allowed())) {
                InputChecks.rank(this, 2, matrix);
            }
            long rows = s.logits().shape().dim(0);
            long vocabulary = s.logits().shape().last();
            if (vocabulary < 1 || vocabulary > TokenWeights.MAX_VOCABULARY || top > vocabulary) {
                throw new ShapeException("Sample: " + vocabulary + " tokens and top " + top + ": expected 1 to "
                        + TokenWeights.MAX_VOCABULARY + " tokens, and top no larger");
            }
            InputChecks.same(
                    this, Shape.of(rows, SamplerSetting.COUNT), s.settings().shape());
            InputChecks.same(this, Shape.of(rows, 3), s.draws().shape());
            InputChecks.same(this, Shape.of(rows), s.slots().shape());
            InputChecks.same(
                    this, s.uses().shape().withLast(vocabulary), s.uses().shape());
            InputChecks.same(
                    this, s.biased().shape().withFirst(rows), s.biased().shape());
            InputChecks.same(this, s.biased().shape(), s.bias().shape());
            boolean masked = s.allowed().shape().last() > 0;
            InputChecks.same(
                    this,
                    Shape.of(rows, masked ? words(vocabulary) : 0),
                    s.allowed().shape());
            return new Spec[] {Spec.i32(rows), Spec.f32(rows), Spec.i32(rows, top), Spec.f32(rows, top)};
        }

        @Override
        public boolean mutates(int input) {
            return input == USES;
        }
    }
}
