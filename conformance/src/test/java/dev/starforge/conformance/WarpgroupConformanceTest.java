package dev.starforge.conformance;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import java.util.List;

/**
 * Kernels of large chips, as {@link EmulatedConformanceTest} has the others: attention of warpgroups in 16 bits, with heads of 64
 * and 128, and products of batches, which many groups share.
 */
final class WarpgroupConformanceTest extends EmulatedConformanceTest {
    /** Of which a small chip's kernel takes all at once. */
    private static final int FEW_ROWS = 8;

    @Override
    boolean warpgroups() {
        return true;
    }

    @Override
    List<Case> asked() {
        return super.asked().stream().filter(WarpgroupConformanceTest::isTheirs).toList();
    }

    private static boolean isTheirs(Case c) {
        Spec first = c.specs()[0];
        if (c.op() instanceof Layers.Linear) {
            return first.dtype() != DType.F32 && first.shape().dim(0) > FEW_ROWS;
        }
        if (!(c.op() instanceof Fused.Attention || c.op() instanceof Fused.AttentionGrad)) {
            return false;
        }
        return first.dtype() != DType.F32
                && (first.shape().dim(2) == 64 || first.shape().dim(2) == 128);
    }
}
