package dev.starforge.conformance;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import java.util.List;

/**
 * Kernels of large chips, as {@link EmulatedConformanceTest} has the others: attention of warpgroups in 16 bits, with heads of 64
 * and 128, and products of batches, which many groups share.
 */
final class WarpgroupConformanceTest extends EmulatedConformanceTest {
    /** Of which a small chip's kernel takes all at once. */
    private static final int GEMV_MAX_ROWS = 8;

    @Override
    boolean warpgroups() {
        return true;
    }

    @Override
    List<Case> selectedCases() {
        return super.selectedCases().stream()
                .filter(WarpgroupConformanceTest::isTheirs)
                .toList();
    }

    private static boolean isTheirs(Case c) {
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
