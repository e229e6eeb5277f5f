package dev.starforge.conformance;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.op.Fused;
import java.util.List;

/** Kernels of chips with warpgroups, as {@link EmulatedConformanceTest} has the others: attention in 16 bits, with heads of 64 and 128. */
final class WarpgroupConformanceTest extends EmulatedConformanceTest {
    @Override
    boolean warpgroups() {
        return true;
    }

    @Override
    List<Case> asked() {
        return super.asked().stream().filter(WarpgroupConformanceTest::isTheirs).toList();
    }

    private static boolean isTheirs(Case c) {
        if (!(c.op() instanceof Fused.Attention || c.op() instanceof Fused.AttentionGrad)) {
            return false;
        }
        Spec q = c.specs()[0];
        return q.dtype() != DType.F32 && (q.shape().dim(2) == 64 || q.shape().dim(2) == 128);
    }
}
