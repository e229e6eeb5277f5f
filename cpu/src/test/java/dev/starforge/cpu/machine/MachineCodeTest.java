package dev.starforge.cpu.machine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.tensor.host.HostMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Machine code is used where it can be, and where it cannot the reason is told. */
class MachineCodeTest {
    private static final CpuFeatures ALL =
            new CpuFeatures(Set.of("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni"));

    @Test
    void refusedExecutableMemoryIsReported() {
        MachineCode.Availability choice = MachineCode.choose(ALL, Set.of(), () -> {
            throw new DeviceException("machine code: mprotect: the system does not allow executable memory");
        });
        assertThat(choice.code()).isEmpty();
        assertThat(choice.reason()).contains("does not allow executable memory");
    }

    @Test
    void missingNativeAccessIsReported() {
        MachineCode.Availability choice = MachineCode.choose(ALL, Set.of(), () -> {
            throw new IllegalCallerException("Illegal native access from module dev.starforge.cpu");
        });
        assertThat(choice.code()).isEmpty();
        assertThat(choice.reason()).contains("native access");
    }

    @Test
    void missingCpuFeaturesAreNotUsed() {
        assertThat(choose(ALL.without(Set.of("fma")), Set.of()).reason()).contains("needs", "AVX2, FMA and F16C");
        assertThat(choose(new CpuFeatures(Set.of()), Set.of()).code()).isEmpty();
        assertThat(choose(ALL, DeviceOptions.NO_MACHINE_CODE).reason()).isEqualTo("switched off");
        assertThat(choose(ALL, Set.of("avx2")).code()).isEmpty();
    }

    @Test
    void unknownHiddenFeaturesAreRefused() {
        assertThatThrownBy(() -> choose(ALL, Set.of("sm_90")))
                .isInstanceOf(DeviceException.class)
                .hasMessageStartingWith("cpu: cannot hide [sm_90]; expected [all] or some of [avx2, avx512_bf16, ");
    }

    @Test
    void hiddenFlagsChooseTheNextBest() {
        assumeTrue(CpuFeatures.ofMachine().avx512(), "no AVX-512 here");
        assertThat(MachineCode.choose(Set.of()).reason()).startsWith("AVX-512 with VNNI");
        assertThat(MachineCode.choose(Set.of("avx512_bf16")).reason()).isEqualTo("AVX-512 with VNNI");
        assertThat(MachineCode.choose(Set.of("avx512_vnni")).reason()).startsWith("AVX2");
    }

    @Test
    void accessOutsideABufferIsRefused() {
        assumeTrue(CpuFeatures.ofMachine().avx2(), "no AVX2 here");
        PanelFormat format = PanelFormat.of(DType.Q8_0);
        try (MachineCode code = MachineCode.choose(Set.of()).code().orElseThrow();
                Arena arena = Arena.ofConfined()) {
            PanelProduct product = code.panelProduct(format, 2, true);
            MemorySegment w = arena.allocate(format.bytes(), 64);
            MemorySegment x = arena.allocate(2L * format.activationBytes(), 64);
            MemorySegment y = arena.allocate(2 * 128, 64);
            MemorySegment s = arena.allocate(PanelFormat.SCALES, 64);
            product.run(at(w, 0), at(x, 0), at(y, 0), 128, 1, at(s, 0));
            assertThatThrownBy(() -> product.run(at(w, 0), at(x, 0), at(y, 0), 128, 2, at(s, 0)))
                    .isInstanceOf(IndexOutOfBoundsException.class)
                    .hasMessageContaining("0 to 2176 of 1088");
            assertThatThrownBy(() -> product.run(at(w, 0), at(x, 4), at(y, 0), 128, 1, at(s, 0)))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThatThrownBy(() -> product.run(at(w, 0), at(x, 0), at(y, 0), 132, 1, at(s, 0)))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThatThrownBy(() -> product.run(at(w, 0), at(x, 0), at(y, 0), 128, 1, at(s, 64)))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThatThrownBy(() -> product.run(
                            at(w, 0), at(MemorySegment.ofArray(new byte[80]), 0), at(y, 0), 128, 1, at(s, 0)))
                    .isInstanceOf(IndexOutOfBoundsException.class)
                    .hasMessageContaining("on the heap");
        }
    }

    @Test
    void failedAllocationsThrowMemoryException() {
        assumeTrue(CpuFeatures.ofMachine().avx2(), "no AVX2 here");
        try (MachineCode code = MachineCode.choose(Set.of()).code().orElseThrow()) {
            assertThatThrownBy(() -> HostMemory.all(List.of(1L << 22, 1L << 60), code::allocate))
                    .isInstanceOf(MemoryException.class)
                    .hasMessageContaining("reserve " + (1L << 60) + " bytes of host memory");
        }
    }

    private static PanelProduct.At at(MemorySegment segment, long offset) {
        return new PanelProduct.At(segment, offset);
    }

    private static MachineCode.Availability choose(CpuFeatures cpu, Set<String> hidden) {
        return MachineCode.choose(cpu, hidden, () -> {
            throw new AssertionError("asked for memory");
        });
    }
}
