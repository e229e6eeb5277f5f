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
 * What decoding needs besides the model: the next token of every sequence, chosen where the logits are. As plain as
 * {@link Plain}: every backend runs it itself.
 */
public sealed interface Decoding extends Op {
    /**
     * (codes i8[R, H, D] and scales f16[R, H] overwritten, rows i32[N], x[N, H, D]): writes x[n] to row rows[n] in eight bits, a
     * scale to each head. The scale is max |x| / 127 in float32, then the nearest f16 that is finite; a code is x / scale,
     * rounded to even and at most 127 either way, or 0 where the scale is. What is read back and stored again has the same
     * bits. No output.
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

    /** Cached rows in eight bits: codes[R, H, D], scales[R, H]. */
    static void checkInt8Cache(Op op, Spec codes, Spec scales) {
        InputChecks.type(op, DType.I8, codes);
        InputChecks.type(op, DType.F16, scales);
        InputChecks.rank(op, 3, codes);
        InputChecks.same(op, Shape.of(codes.shape().dim(0), codes.shape().dim(1)), scales.shape());
    }

    /** In place of a slot: the row has no history, so nothing is penalized and nothing counted. */
    int NO_HISTORY = -1;

    /** In place of a slot: the row is padding. Any number below {@link #NO_HISTORY} is. */
    int SKIPPED = -2;

    /** Uses of a token that was never seen; 0 is a token of the prompt alone, n one that was generated n times. */
    int NEVER = -1;

    /** In place of a token: none was chosen, or, among biased ids, none is meant. */
    int NO_TOKEN = -1;

    /** The columns of a row's settings, in the order in which they take part. */
    enum SamplerSetting {
        REPETITION_PENALTY,
        PRESENCE_PENALTY,
        FREQUENCY_PENALTY,
        /** 0 takes the best token. */
        TEMPERATURE,
        /** 0 is all. */
        TOP_K,
        /** 1 - top_p: a float32 holds a small rest, but not a large share, as precisely as ties at the border need. */
        TAIL,
        MIN_P,
        TYPICAL_P;

        /** How many columns there are. */
        public static final int COUNT = values().length;
    }

    /**
     * Chooses the next token of R sequences: (logits[R, V], settings[R, {@link SamplerSetting#COUNT}], draws i32[R, 3], slots i32[R],
     * uses i32[S, V] overwritten, biased i32[R, B], bias[R, B], allowed i32[R, W]) -> token i32[R], its log-probability[R],
     * and the {@code top} likeliest ids i32[R, top] with their log-probabilities[R, top].
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
        /** The input that is overwritten. */
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
                throw new ShapeException("Sample: " + vocabulary + " tokens, the likeliest " + top
                        + " wanted: expected 1 to " + TokenWeights.MAX_VOCABULARY + ", and no more wanted");
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
