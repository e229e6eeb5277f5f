package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.conformance.emulator.EmulatedBackend;
import dev.starforge.conformance.emulator.GpuModel;
import dev.starforge.kernels.Kernel;
import dev.starforge.kernels.Variant;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Metal would compile every program that it can be given: those of all conformance cases, and every portable kernel with one type throughout. */
final class MetalSourceTest {
    @Test
    void everyProgramIsValidMetal() {
        EmulatedBackend backend = new EmulatedBackend(GpuModel.APPLE);
        Set<Variant> variants =
                new HashSet<>(CaseCoverage.all(backend, Cases.all()).variants());
        for (Kernel kernel : Kernel.values()) {
            if (kernel.sibling().isEmpty()) {
                Stream.of("f32", "f16", "bf16")
                        .map(type -> List.of("D " + type, "W " + type, "X " + type, "Y " + type))
                        .forEach(defines -> variants.add(new Variant(kernel, defines)));
            }
        }
        assertThat(backend.metalFaults(variants)).isEmpty();
    }
}
