package dev.starforge.kernels;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What is declared; that kernels compute the right thing is for the conformance suite. */
class DispatchTest {
    private static final Comparator<Class<?>> BY_NAME = Comparator.comparing(Class::getName);

    static Stream<Op> fused() {
        return Stream.of(
                new Fused.LayerNorm(1e-5f),
                new Fused.LayerNormGrad(1e-5f, true),
                new Fused.RmsNorm(1e-5f),
                new Fused.RmsNormGrad(1e-5f, false),
                new Fused.Rope(1, false),
                new Fused.Gated(Fn.SILU),
                new Fused.GatedGrad(Fn.GELU_TANH),
                new Fused.CrossEntropy(),
                new Fused.CrossEntropyGrad(DType.F32),
                new Fused.Attention(1, 0, 16),
                new Fused.AttentionGrad(1, 0, 16));
    }

    @ParameterizedTest
    @MethodSource
    void fused(Op op) {
        assertEquals(Support.NATIVE, Dispatch.supports(op, Spec.f32(3, 4, 256)));
    }

    @Test
    void everyFusedOperationIsTested() {
        assertEquals(
                Stream.of(Fused.class.getPermittedSubclasses())
                        .filter(Class::isRecord)
                        .sorted(BY_NAME)
                        .toList(),
                fused().map(Op::getClass).distinct().sorted(BY_NAME).toList());
    }

    @Test
    void plainOperationsAreNative() {
        assertEquals(Support.NATIVE, Dispatch.supports(new Plain.Norm(), Spec.f32(5), Spec.f32(7, 11)));
    }

    @Test
    void supportsSixteenBitActivations() {
        for (DType type : List.of(DType.F16, DType.BF16)) {
            Spec x = new Spec(type, Shape.of(3, 4, 256));
            assertEquals(Support.NATIVE, Dispatch.supports(new Plain.Add(), x, Spec.f32(256)));
            assertEquals(Support.NATIVE, Dispatch.supports(new Fused.RmsNorm(1e-5f), x, Spec.f32(256)));
            assertEquals(Support.NATIVE, Dispatch.supports(new Plain.MatMul(false, true, type, true), x, x));
        }
    }

    @Test
    void quantizedWeightsOfWholeTilesAreNative() {
        Spec w = new Spec(DType.Q8_0, Shape.of(48, 128));
        assertEquals(Support.NATIVE, Dispatch.supports(new Plain.MatMul(false, true), Spec.f32(1, 128), w));
        assertEquals(Support.NATIVE, Dispatch.supports(new Plain.Gather(), w, Spec.i32(1)));
        assertEquals(Support.NATIVE, Dispatch.supports(new Plain.Cast(DType.F32), w));
        Spec other = new Spec(DType.Q2_K, Shape.of(48, 256));
        assertEquals(Support.NONE, Dispatch.supports(new Plain.MatMul(false, true), Spec.f32(1, 256), other));
    }

    @Test
    void otherQuantizedWeightsAreUnsupported() {
        Spec w = new Spec(DType.Q8_0, Shape.of(5, 32));
        assertEquals(Support.NONE, Dispatch.supports(new Plain.MatMul(false, true), Spec.f32(1, 32), w));
        assertEquals(Support.NONE, Dispatch.supports(new Plain.Gather(), w, Spec.i32(1)));
        assertEquals(Support.NONE, Dispatch.supports(new Plain.Cast(DType.F32), w));
    }

    @Test
    void attentionWithLargeHeadsIsExpanded() {
        assertEquals(Support.EXPANDED, Dispatch.supports(new Fused.Attention(1, 0, 1), Spec.f32(3, 4, 257)));
        assertEquals(Support.EXPANDED, Dispatch.supports(new Fused.AttentionGrad(1, 0, 1), Spec.f32(3, 4, 257)));
    }

    /** Only kernels for matrix instructions read quantized weights; other devices dequantize one weight at a time. */
    @Test
    void devicesWithoutMatrixInstructionsDequantizeWeights() {
        Layers.Linear op = new Layers.Linear(2, false, Fn.IDENTITY, false, DType.BF16, false);
        Spec x = new Spec(DType.BF16, Shape.of(3, 128));
        Spec small = new Spec(DType.Q8_0, Shape.of(32, 128));
        Spec large = new Spec(DType.Q8_0, Shape.of(48, 128));
        assertEquals(0, Dispatch.workspace(Set.of(Sibling.MMA), op, x, small, large));
        assertEquals(48 * 128 * 2, Dispatch.workspace(Set.of(), op, x, small, large));
    }
}
