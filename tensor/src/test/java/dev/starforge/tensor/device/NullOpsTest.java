package dev.starforge.tensor.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.OnReference;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Tape;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The plan is the step itself, run on nothing: it must come to the same number. */
final class NullOpsTest {
    private final OnReference on = new OnReference();

    @AfterEach
    void close() {
        on.close();
    }

    private static void step(Ops ops, Checkpointing checkpointing) {
        Scope scope = ops.scope();
        Tensor x = scope.allocate(Spec.f32(33, 64));
        Tensor norm = scope.allocate(Spec.f32(64));
        Tensor weight = scope.allocate(Spec.f32(64, 64));
        Tensor labels = scope.allocate(Spec.i32(33));
        Tensor weights = scope.allocate(Spec.f32(33));
        Tape tape = new Tape(ops, List.of(norm, weight), checkpointing);
        Tensor h = x;
        for (int layer = 0; layer < 4; layer++) {
            h = tape.block(h, (o, in) -> {
                Tensor n = o.rmsNorm(in, norm, 1e-5f);
                return o.add(in, o.gated(Fn.GELU_TANH, o.project(n, weight), n));
            });
        }
        scope.mark();
        tape.backward(tape.crossEntropy(h, labels, weights));
        scope.release();
    }

    @Test
    void thePlanIsThePeak() {
        for (Fallback fallback : List.of(Fallback.QUIET, Fallback.without(Fused.RmsNormGrad.class))) {
            for (Checkpointing checkpointing : Checkpointing.values()) {
                NullOps plan = new NullOps(on.device, Precision.FLOAT32, fallback);
                step(plan, checkpointing);
                try (Scope scope = new Scope(on.device)) {
                    step(on.device.ops(scope, Precision.FLOAT32, fallback), checkpointing);
                    assertThat(plan.plan().tensorBytes())
                            .isEqualTo(scope.peakBytes())
                            .isPositive();
                }
            }
        }
    }

    @Test
    void thePlanReflectsCheckpointing() {
        NullOps kept = new NullOps(on.device, Precision.FLOAT32, Fallback.QUIET);
        step(kept, Checkpointing.OFF);
        NullOps recomputed = new NullOps(on.device, Precision.FLOAT32, Fallback.QUIET);
        step(recomputed, Checkpointing.FULL);
        assertThat(recomputed.plan().tensorBytes()).isLessThan(kept.plan().tensorBytes());
    }

    @Test
    void hasNoValues() {
        NullOps ops = new NullOps(on.device, Precision.FLOAT32, Fallback.QUIET);
        Tensor x = ops.scope().allocate(Spec.f32(3));
        Tensor y = ops.add(x, x);
        assertThat(y.shape()).isEqualTo(Shape.of(3));
        assertThatThrownBy(() -> ops.scope().device().floats(y))
                .isInstanceOf(DeviceException.class)
                .hasMessage("read: F32[3] has no values on reference (plan)");
    }

    @Test
    void refusesWhatTheDeviceWouldRefuse() {
        NullOps ops =
                new NullOps(on.device, Precision.FLOAT32, new Fallback(false, Set.of(Fused.Gated.class), l -> {}));
        Tensor x = ops.scope().allocate(Spec.f32(3));
        assertThatThrownBy(() -> ops.gated(Fn.SILU, x, x))
                .isInstanceOf(DeviceException.class)
                .hasMessageStartingWith("Gated:");
        assertThatThrownBy(() -> ops.add(x, ops.scope().allocate(Spec.f32(2)))).isInstanceOf(ShapeException.class);
    }
}
