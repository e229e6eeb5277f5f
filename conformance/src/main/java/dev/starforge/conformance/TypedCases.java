package dev.starforge.conformance;

import dev.starforge.conformance.Case.Input;
import dev.starforge.conformance.Case.Source;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import dev.starforge.tensor.op.Training;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Derives cases with 16-bit activations from the float32 cases: the same operations and shapes. Inputs that an operation supports only
 * in float32 keep their type.
 */
final class TypedCases {
    /** Larger cases test sums and threads, which do not depend on the element type. */
    private static final long MOST_ELEMENTS = 5_000;

    private TypedCases() {}

    /** The type of a case's 16-bit activations, F32 if it has none. */
    static DType of(Case c) {
        for (int i = 0; i < c.inputs().size(); i++) {
            DType type = c.inputs().get(i).spec().dtype();
            if (isActivation(c.op(), i) && type.isFloat() && type != DType.F32) {
                return type;
            }
        }
        return switch (c.op()) {
            case Plain.Fill fill -> fill.spec().dtype();
            case Fused.CrossEntropyGrad gradient -> gradient.to();
            case Plain.Cast cast when cast.to() != DType.F32 -> cast.to();
            case Plain.Cast _ when c.specs()[0].dtype().isFloat() -> c.specs()[0].dtype();
            default -> DType.F32;
        };
    }

    /** The case in another type; empty if it has no activations, has 16-bit activations already, or is large. */
    static Optional<Case> in(DType type, Case c) {
        boolean float32 = true;
        boolean any = c.op() instanceof Plain.Fill;
        long elements = 0;
        for (int i = 0; i < c.inputs().size(); i++) {
            Spec spec = c.inputs().get(i).spec();
            float32 &= spec.dtype() == DType.F32 || spec.dtype() == DType.I32 || !isActivation(c.op(), i);
            any |= isActivation(c.op(), i) && spec.dtype() == DType.F32;
            elements += spec.shape().size();
        }
        return float32 && any && elements <= MOST_ELEMENTS ? Optional.of(as(type, c)) : Optional.empty();
    }

    /** The case with all activations in this type. */
    static Case as(DType type, Case c) {
        List<Input> inputs = new ArrayList<>();
        for (int i = 0; i < c.inputs().size(); i++) {
            Input input = c.inputs().get(i);
            Spec spec = input.spec();
            if (input.source() instanceof Source.Made made) {
                Spec[] before =
                        inputs.stream().limit(made.inputs()).map(Input::spec).toArray(Spec[]::new);
                spec = made.by().outputs(before)[made.output()];
            } else if (spec.dtype().isFloat() && (isActivation(c.op(), i) || c.op() instanceof Plain.Cast)) {
                spec = new Spec(type, spec.shape());
            }
            inputs.add(new Input(spec, input.source(), input.gradient()));
        }
        return new Case(as(type, c.op()), inputs, c.note());
    }

    /** The operation with this output type, if it has an output type. */
    private static Op as(DType type, Op op) {
        return switch (op) {
            case Plain.MatMul o -> new Plain.MatMul(o.transposeA(), o.transposeB(), type, o.int8());
            case Routing.ExpertMatMul o -> new Routing.ExpertMatMul(o.transposeB(), type, o.int8());
            case Layers.Linear o -> new Layers.Linear(o.weights(), o.bias(), o.fn(), o.residual(), type, o.int8());
            case Layers.AddMatMul o ->
                new Layers.AddMatMul(
                        new Plain.MatMul(o.product().transposeA(), o.product().transposeB(), type));
            case Plain.ScatterAdd o -> new Plain.ScatterAdd(o.height(), type);
            case Plain.Fill o -> new Plain.Fill(new Spec(type, o.spec().shape()), o.value());
            case Plain.Cast _ -> new Plain.Cast(type);
            case Fused.CrossEntropyGrad _ -> new Fused.CrossEntropyGrad(type);
            default -> op;
        };
    }

    /** Returns true if a float input may have 16 bits: not in softmax, scores, losses, statistics, norm weights and optimizers. */
    static boolean isActivation(Op op, int input) {
        return switch (op) {
            case Plain.Cast _,
                    Plain.Softmax _,
                    Plain.SoftmaxGrad _,
                    Plain.LogSumExp _,
                    Plain.Pick _,
                    Plain.Unpick _,
                    Plain.Mask _,
                    Plain.Argmax _,
                    Plain.Norm _,
                    Plain.AdamW _,
                    Training.AdamW8 _,
                    Routing.Route _,
                    Routing.Group _,
                    Decoding.Sample _,
                    Fused.CrossEntropy _,
                    Fused.CrossEntropyGrad _ -> false;
            case Training.Accumulate _ -> input == 1;
            case Plain.Store _ -> input == 0 || input == 2;
            case Decoding.StoreInt8 _ -> input == 3;
            case Training.Dropout _, Training.Noise _, Fused.LayerNorm _, Fused.RmsNorm _, Fused.Rope _ -> input == 0;
            case Fused.LayerNormGrad _ -> input == 0 || input == 5;
            case Fused.RmsNormGrad _ -> input == 0 || input == 3;
            case Adapters _, Layers.AddLayerNorm _, Layers.AddRmsNorm _ -> input < 2;
            case Layers.Linear o -> input <= o.weights() || o.residual() && input == o.residualInput();
            case Fused.Attention _ -> input < 3;
            case Fused.AttentionGrad _ -> input < 3 || input == 6 || input == 8;
            case Plain _, Routing _, Layers.AddMatMul _, Fused.Gated _, Fused.GatedGrad _ -> true;
        };
    }
}
