package dev.starforge.conformance;

import dev.starforge.conformance.emulator.GpuModel;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;

/**
 * Kernels that {@link EmulatedConformanceTest} does not launch because they need a large device: 16-bit attention with warpgroups
 * and heads of 64 and 128, and small-batch matmuls with split-K.
 */
final class WarpgroupConformanceTest extends EmulatedConformanceTest {
    /** Rows up to which the gemv kernel is used on every device. */
    private static final int GEMV_MAX_ROWS = 8;

    @Override
    GpuModel model() {
        return GpuModel.HOPPER;
    }

    @Override
    boolean includes(Case c) {
        return switch (c.op()) {
            case Layers.Linear _ -> isSixteenBits(c) && c.specs()[0].shape().dim(0) > GEMV_MAX_ROWS;
            case Fused.Attention _, Fused.AttentionGrad _ -> {
                long head = c.specs()[0].shape().dim(2);
                yield isSixteenBits(c) && (head == 64 || head == 128);
            }
            default -> false;
        };
    }

    private static boolean isSixteenBits(Case c) {
        return c.specs()[0].dtype() != DType.F32;
    }
}
