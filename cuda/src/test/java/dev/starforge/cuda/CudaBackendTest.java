package dev.starforge.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What holds with and without a GPU; that kernels compute the right thing is for the conformance suite. */
class CudaBackendTest {
    private static final Comparator<Class<?>> BY_NAME = Comparator.comparing(Class::getName);

    private final CudaBackend backend = new CudaBackend();

    @Test
    void probeGivesAReasonAndNumbersItsDevices() {
        Probe probe = backend.probe();
        assertFalse(probe.reason().isBlank());
        for (int i = 0; i < probe.found().size(); i++) {
            Probe.Found found = probe.found().get(i);
            assertEquals(i, found.index());
            assertTrue(found.memoryBytes() > 0, found.toString());
            assertTrue(found.detail().startsWith("compute capability "), found.detail());
        }
    }

    @Test
    void openingADeviceThatIsNotThereSaysWhy(@TempDir Path cache) {
        DeviceException thrown =
                assertThrows(DeviceException.class, () -> backend.open(new DeviceOptions(99, 0, cache)));
        assertTrue(thrown.getMessage().startsWith("cuda:99 cannot be opened: "), thrown.getMessage());
    }

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
                new Fused.CrossEntropyGrad(),
                new Fused.Attention(1, 0, 16),
                new Fused.AttentionGrad(1, 0, 16));
    }

    @ParameterizedTest
    @MethodSource
    void fused(Op op) {
        assertEquals(Support.NATIVE, backend.supports(op, Spec.f32(3, 4, 256)));
    }

    @Test
    void everyFusedOperationIsAskedFor() {
        assertEquals(
                Stream.of(Fused.class.getPermittedSubclasses())
                        .filter(Class::isRecord)
                        .sorted(BY_NAME)
                        .toList(),
                fused().map(Op::getClass).distinct().sorted(BY_NAME).toList());
    }

    @Test
    void plainOperationsAreNative() {
        assertEquals(Support.NATIVE, backend.supports(new Plain.Norm(), Spec.f32(5), Spec.f32(7, 11)));
    }

    @Test
    void quantizedWeightsAreRefused() {
        Spec w = new Spec(DType.Q8_0, Shape.of(5, 32));
        assertEquals(Support.NONE, backend.supports(new Plain.MatMul(false, true), Spec.f32(1, 32), w));
        assertEquals(Support.NONE, backend.supports(new Plain.Gather(), w, Spec.i32(1)));
        assertEquals(Support.NONE, backend.supports(new Plain.Cast(DType.F32), w));
    }

    @Test
    void attentionWithLargeHeadsIsExpanded() {
        assertEquals(Support.EXPANDED, backend.supports(new Fused.Attention(1, 0, 1), Spec.f32(3, 4, 257)));
        assertEquals(Support.EXPANDED, backend.supports(new Fused.AttentionGrad(1, 0, 1), Spec.f32(3, 4, 257)));
    }

    @Test
    void tablesOfAdaptersAreExpanded() {
        assertEquals(Support.EXPANDED, backend.supports(new Adapters.Lora(), Spec.f32(3, 4)));
        assertEquals(Support.EXPANDED, backend.supports(new Adapters.ExpertLora(), Spec.f32(3, 4)));
    }

    @Test
    void aMissingLibraryIsAReasonAndItsFunctionsThrowIt() {
        Library library = Library.open("it is not here", List.of("libstarforge-not-there.so.1"));
        assertEquals(new Library.Missing("it is not here"), library);
        MethodHandle handle = library.handle(
                "anything", FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS));
        DeviceException thrown =
                assertThrows(DeviceException.class, () -> handle.invokeWithArguments(1L, MemorySegment.NULL));
        assertEquals("it is not here", thrown.getMessage());
    }
}
