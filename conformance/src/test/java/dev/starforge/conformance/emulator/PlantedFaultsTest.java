package dev.starforge.conformance.emulator;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.kernels.Kernel;
import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Launch.Argument;
import dev.starforge.kernels.Variant;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * The emulator finds faults that are planted into the source of kernels. A GPU may run each of them without an error and with right results.
 * Here kernels are compiled with the host prelude, in {@link MetalPlantedFaultsTest} as Metal does.
 */
class PlantedFaultsTest {
    private static final Op SUM = new Plain.Sum(Plain.Sum.Over.LAST);

    private final Emulator emulator = emulator();

    Emulator emulator() {
        return Emulator.requireHost();
    }

    /** Where a simdgroup function is called, as far as the emulator knows. */
    String placeOfSimdSum() {
        return "common.kernel:";
    }

    private static volatile float smallest = Float.MIN_NORMAL;

    /** Kernels of one device flush subnormals; the mode must not stay in the thread that ran them, nor in the next run. */
    @AfterEach
    void subnormalsAreKept() {
        assertThat(smallest / 2).isPositive();
    }

    @Test
    void findsOffByOneBound() {
        assertThatThrownBy(() -> run(planted("i < width; i += GROUP", "i <= width; i += GROUP"), SUM, Spec.f32(3, 300)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining(
                        "SumLast: group (2, 0, 0), thread 44: buffer x: index 900 is outside of its 900 elements");
    }

    /** The memory after a tensor belongs to another one, so only the bounds of the tensor detect this. */
    @Test
    void findsIndexIntoAdjacentTensor() {
        assertThatThrownBy(() -> run(
                        planted("x[(i64)GROUP_X * width + i]", "x[(i64)(GROUP_X + 1) * width + i]"),
                        SUM,
                        Spec.f32(3, 5)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining(
                        "SumLast: group (2, 0, 0), thread 0: buffer x: index 15 is outside of its 15 elements");
    }

    @Test
    void findsIndexBeforeBuffer() {
        assertThatThrownBy(() -> run(planted("y[GROUP_X] = sum", "y[(i64)GROUP_X - 1] = sum"), SUM, Spec.f32(3, 5)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining(
                        "SumLast: group (0, 0, 0), thread 0: buffer y: index -1 is outside of its 3 elements");
    }

    @Test
    void findsIndexOutsideSharedArray() {
        assertThatThrownBy(
                        () -> run(planted("scratch[SIMDGROUP] = x", "scratch[SIMDGROUP + 1] = x"), SUM, Spec.f32(3, 5)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining(
                        "SumLast: group (0, 0, 0), thread 224: shared array scratch: index 8 is outside of its 8 elements");
    }

    @Test
    void findsMissingBarrierBeforeRead() {
        UnaryOperator<String> edit = planted(
                "        BARRIER();\n    }\n    if (THREAD == 0) {\n        y[",
                "    }\n    if (THREAD == 0) {\n        y[");
        assertThatThrownBy(() -> run(edit, new Plain.Argmax(), Spec.f32(3, 300)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("Argmax: group (0, 0, 0), thread ")
                .hasMessageContaining("shared array value: race: ")
                .hasMessageContaining(", with no barrier between");
    }

    /** Every thread reads the right value, but the next sum may overwrite it too early. */
    @Test
    void findsMissingBarrierBeforeWrite() {
        UnaryOperator<String> edit = planted("    BARRIER();\n    return max;", "    return max;");
        assertThatThrownBy(() -> run(edit, new Plain.Softmax(), Spec.f32(3, 300)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("Softmax: ")
                .hasMessageContaining("shared array scratch: race: writes element ")
                .hasMessageContaining("which other threads read, with no barrier between");
    }

    @Test
    void findsDivergentBarrier() {
        UnaryOperator<String> edit = planted(
                "    sum = group_sum(sum, scratch);",
                "    if (THREAD == 77) {\n        return;\n    }\n    sum = group_sum(sum, scratch);");
        assertThatThrownBy(() -> run(edit, SUM, Spec.f32(3, 5)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("SumLast: group (0, 0, 0), thread ")
                .hasMessageContaining("divergent simd_sum at " + placeOfSimdSum())
                .hasMessageContaining("31 of 32 threads wait there, the others never come");
    }

    @Test
    void findsDifferentBarriersInOneGroup() {
        assertThatThrownBy(() -> run(
                        planted(
                                "    BARRIER();\n    float sum = 0;",
                                "    if (THREAD < 128) {\n        BARRIER();\n    } else {\n        BARRIER();\n    }\n    float sum = 0;"),
                        SUM,
                        Spec.f32(3, 5)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("SumLast: group (0, 0, 0), thread 159: divergent BARRIER at common.kernel:")
                .hasMessageContaining("thread 31 waits at common.kernel:");
    }

    @Test
    void findsUninitializedSharedMemory() {
        assertThatThrownBy(() -> run(
                        planted(
                                "if (LANE == 0) {\n        scratch[SIMDGROUP] = x",
                                "if (THREAD == 0) {\n        scratch[SIMDGROUP] = x"),
                        SUM,
                        Spec.f32(3, 5)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("SumLast: ")
                .hasMessageContaining("shared array scratch: element 1 is read before anything was written to it");
    }

    /** Shared memory does not keep its contents between groups. */
    @Test
    void findsSharedMemoryOfPreviousGroup() {
        assertThatThrownBy(() -> run(
                        planted(
                                "if (LANE == 0) {\n        scratch[SIMDGROUP] = x",
                                "if (LANE == 0 && GROUP_X == 0) {\n        scratch[SIMDGROUP] = x"),
                        SUM,
                        Spec.f32(3, 5)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("SumLast: group (1, 0, 0), ")
                .hasMessageContaining("shared array scratch: element 0 is read before anything was written to it");
    }

    @Test
    void findsArgumentOfWrongType() {
        try (EmulatedDevice device =
                        new EmulatedDevice(emulator, false, GpuModel.AMPERE, UnaryOperator.identity(), variant -> {});
                Scope scope = new Scope(device)) {
            Argument y = new Argument.Buffer(scope.allocate(Spec.f32(5)));
            Launch launch = new Launch(
                    new Variant(Kernel.FILL, List.of()),
                    List.of(y, new Argument.Int(5), new Argument.Float(1)),
                    1,
                    1,
                    1);
            assertThatThrownBy(() -> device.launch(launch))
                    .isInstanceOf(DeviceException.class)
                    .hasMessage("Fill: has parameters of types fLF, the launch has fIF");
        }
    }

    /** Metal's compiler may assume that what is written overlaps nothing else. The same tensor as an input and the output is in place. */
    @Test
    void findsOverlappingArguments() {
        try (EmulatedDevice device =
                        new EmulatedDevice(emulator, false, GpuModel.AMPERE, UnaryOperator.identity(), variant -> {});
                Scope scope = new Scope(device)) {
            Tensor all = scope.allocate(Spec.f32(6));
            Tensor first = all.view(0, Shape.of(5));
            device.write(all, new float[] {1, 2, 3, 4, 5, 6});
            device.run(new Plain.Add(), new Tensor[] {first, first}, new Tensor[] {first});
            assertThat(device.floats(first)).containsExactly(2, 4, 6, 8, 10);
            assertThatThrownBy(() -> device.run(
                            new Plain.Add(), new Tensor[] {first, first}, new Tensor[] {all.view(1, Shape.of(5))}))
                    .isInstanceOf(DeviceException.class)
                    .hasMessageStartingWith("Add: argument 0, ")
                    .hasMessageContaining(", overlaps argument 2, ");
        }
    }

    @Test
    void findsUndeclaredSharedMemory() {
        assertThatThrownBy(() -> run(
                        planted(
                                "SHARED(float, scratch, SIMDGROUPS);\n    float sum",
                                "SHARED(float, scratch, SIMDGROUPS + 1);\n    float sum"),
                        SUM,
                        Spec.f32(3, 5)))
                .isInstanceOf(DeviceException.class)
                .hasMessage("SumLast: declares 48 bytes of shared memory, Kernel has 32");
    }

    /** A fault does not affect the next launch. */
    @Test
    void computesCorrectSumsWithoutFault() {
        assertThatThrownBy(
                () -> run(planted("i < width; i += GROUP", "i <= width; i += GROUP"), SUM, Spec.f32(3, 300)));
        assertThat(run(UnaryOperator.identity(), SUM, Spec.f32(3, 300))).containsOnly(299 * 300 / 2);
    }

    /** Replaces text that must occur. */
    static UnaryOperator<String> planted(String text, String fault) {
        return program -> {
            assertThat(program).contains(text);
            return program.replace(text, fault);
        };
    }

    /** The first output of an operation on rows of 0, 1, 2 and so on. */
    float[] run(UnaryOperator<String> edit, Op op, Spec x) {
        try (EmulatedDevice device = new EmulatedDevice(emulator, false, GpuModel.AMPERE, edit, variant -> {});
                Scope scope = new Scope(device)) {
            Tensor in = scope.allocate(x);
            float[] values = new float[(int) x.shape().size()];
            for (int i = 0; i < values.length; i++) {
                values[i] = i % x.shape().last();
            }
            device.write(in, values);
            Tensor out = scope.allocate(op.outputs(x)[0]);
            device.run(op, new Tensor[] {in}, new Tensor[] {out});
            return device.floats(out);
        }
    }
}
