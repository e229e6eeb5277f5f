package dev.starforge.conformance;

import dev.starforge.conformance.emulator.EmulatedBackend;
import dev.starforge.conformance.emulator.GpuModel;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Plain;

/**
 * The cases for which an Apple GPU launches other kernels than those of {@link EmulatedConformanceTest}: portable ones for quantized
 * products, for linear layers of few rows and for attention in 16 bits. Subnormals are flushed, which matters to functions such as SILU.
 */
final class MetalConformanceTest extends EmulatedConformanceTest {
    private final EmulatedBackend ampere = new EmulatedBackend();
    private final EmulatedBackend apple = new EmulatedBackend(GpuModel.APPLE);

    @Override
    GpuModel model() {
        return GpuModel.APPLE;
    }

    @Override
    boolean includes(Case c) {
        return switch (c.op()) {
            case Plain.Map _, Plain.MapGrad _, Fused.Gated _, Fused.GatedGrad _ -> true;
            default -> !CaseCoverage.launches(ampere, c).containsAll(CaseCoverage.launches(apple, c));
        };
    }
}
