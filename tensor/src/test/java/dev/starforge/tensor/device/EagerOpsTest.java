package dev.starforge.tensor.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.OnReference;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Plain;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

final class EagerOpsTest {
    private final OnReference on = new OnReference();

    @AfterEach
    void close() {
        on.close();
    }

    @Test
    void oneThreadOwnsThem() {
        Tensor x = on.row(1);
        assertThatThrownBy(() ->
                        CompletableFuture.runAsync(() -> on.ops.scale(x, 2)).join())
                .isInstanceOf(CompletionException.class)
                .hasRootCauseInstanceOf(TensorException.class)
                .hasMessageContaining("Affine: these ops belong to thread");
    }

    @Test
    void theScopeIsOfTheSameDevice() {
        try (OnReference other = new OnReference()) {
            assertThatThrownBy(() -> on.device.ops(other.scope, Precision.FLOAT32, Fallback.QUIET))
                    .isInstanceOf(DeviceException.class);
        }
    }

    @Test
    void countsFallbacksAndLogsEachOnce() {
        List<String> log = new ArrayList<>();
        EagerOps ops =
                on.device.ops(on.scope, Precision.FLOAT32, new Fallback(true, Set.of(Fused.RmsNorm.class), log::add));
        Tensor x = on.normal(1, 3, 5);
        Tensor w = on.normal(2, 5);
        ops.rmsNorm(x, w, 1e-5f);
        ops.rmsNorm(x, w, 1e-5f);
        assertThat(ops.fallbacks()).containsOnlyKeys("RmsNorm").containsEntry("RmsNorm", 2L);
        assertThat(log).containsExactly("RmsNorm runs as its expansion on reference");
        assertThat(on.ops.fallbacks()).isEmpty();
    }

    @Test
    void anExpansionFreesAllButItsResults() {
        Tensor x = on.normal(1, 3, 64);
        Tensor w = on.normal(2, 64);
        long before = on.scope.usedBytes();
        on.device
                .ops(on.scope, Precision.FLOAT32, Fallback.without(Fused.RmsNorm.class))
                .runAll(new Fused.RmsNorm(1e-5f), x, w);
        long expanded = on.scope.usedBytes() - before;
        on.ops.runAll(new Fused.RmsNorm(1e-5f), x, w);
        assertThat(expanded).isEqualTo(on.scope.usedBytes() - before - expanded);
    }

    @Test
    void forbiddenFallbackNamesTheOperation() {
        EagerOps ops =
                on.device.ops(on.scope, Precision.FLOAT32, new Fallback(false, Set.of(Fused.Gated.class), line -> {}));
        Tensor x = on.row(1, 2);
        assertThat(on.read(ops.add(x, x))).containsExactly(2, 4);
        assertThatThrownBy(() -> ops.gated(Fn.SILU, x, x))
                .isInstanceOf(DeviceException.class)
                .hasMessage("Gated: reference has no kernel for it and fallback is forbidden");
    }

    @Test
    void aBlockFreesAllButItsResult() {
        Tensor x = on.row(1, 2);
        long before = on.scope.usedBytes();
        Tensor y = on.ops.block(x, (ops, a) -> ops.scale(ops.scale(ops.scale(a, 2), 2), 2));
        assertThat(on.read(y)).containsExactly(8, 16);
        assertThat(on.scope.usedBytes() - before).isEqualTo(256);
    }

    @Test
    void reshapeSharesStorageAndKeepsTheSize() {
        Tensor x = on.row(1, 2, 3, 4, 5, 6);
        Tensor y = on.ops.reshape(x, Shape.of(2, 3));
        assertThat(y.offset()).isEqualTo(x.offset());
        assertThatThrownBy(() -> on.ops.reshape(x, Shape.of(5)))
                .isInstanceOf(ShapeException.class)
                .hasMessage("reshape: [6] cannot be viewed as [5]");
    }

    @Test
    void refusesShapesBeforeTheDeviceSeesThem() {
        Tensor x = on.normal(1, 2, 3);
        assertThatThrownBy(() -> on.ops.project(x, on.normal(2, 5, 4)))
                .isInstanceOf(ShapeException.class)
                .hasMessage("MatMul: [2, 3] x [5, 4]^T: expected equal leading and inner dimensions");
        assertThatThrownBy(() -> on.ops.add(x, on.ints(1, 2, 3)))
                .isInstanceOf(ShapeException.class)
                .hasMessage("Add: expected a float type, got I32[3]");
        assertThatThrownBy(() -> on.ops.run(new Plain.Slice(1, 3), x))
                .isInstanceOf(ShapeException.class)
                .hasMessage("Slice: rows 1..3 of [2, 3]");
    }
}
