package dev.starforge.conformance.emulator;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Plain;
import org.junit.jupiter.api.Test;

/** The same faults in the text that Metal compiles, and some that only pointers to memory can have. */
class MetalPlantedFaultsTest extends PlantedFaultsTest {
    @Override
    Emulator emulator() {
        return Emulator.requireMetal();
    }

    @Override
    String placeOfSimdSum() {
        return "the kernel:";
    }

    @Test
    void findsUnalignedVector() {
        assertThatThrownBy(() -> run(
                        planted(
                                "sum += widen(x[(i64)GROUP_X * width + i]);",
                                "float v[4]; load_vec4(x + 1, v); sum += v[0];"),
                        new Plain.Sum(Plain.Sum.Over.LAST),
                        Spec.f32(3, 5)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining(
                        "SumLast: group (0, 0, 0), thread 0: a load of 16 bytes at an address that is not a multiple of that");
    }

    /** Both calls are in the prelude; lanes that wait in different ones would exchange values on no GPU. */
    @Test
    void findsDifferentSimdgroupCalls() {
        assertThatThrownBy(() -> run(
                        planted(
                                "    sum = group_sum(sum, scratch);\n    if (THREAD == 0) {\n        y[GROUP_X] = sum;",
                                "    sum = LANE < 7 ? simd_sum(sum) : simd_sum(2.0f * sum);\n    if (THREAD == 0) {\n        y[GROUP_X] = sum;"),
                        new Plain.Sum(Plain.Sum.Over.LAST),
                        Spec.f32(3, 5)))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining(
                        "SumLast: group (0, 0, 0), thread 7: divergent simd_sum: thread 0 waits at another call");
    }
}
