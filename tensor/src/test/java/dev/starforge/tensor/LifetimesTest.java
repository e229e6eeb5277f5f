package dev.starforge.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Tape;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Misuse of memory throws at once, and a failure leaves everything as it was. */
final class LifetimesTest {
    private final Device device =
            Selection.choose("reference").backend().open(new DeviceOptions(0, 0, Path.of("target")));
    private final Scope scope = new Scope(device);
    private final Ops ops = device.ops(scope, Precision.FLOAT32, Fallback.QUIET);

    @AfterEach
    void close() {
        scope.close();
        device.close();
    }

    private Tensor ones(long... dims) {
        return ops.run(new Plain.Fill(Spec.f32(dims), 1));
    }

    @Test
    void aFailingBlockFreesEverything() {
        Tensor kept = ones(4);
        long before = scope.usedBytes();
        assertThatThrownBy(() -> ops.block(kept, (o, x) -> {
                    scope.mark();
                    return o.add(o.scale(x, 2), ones(5));
                }))
                .isInstanceOf(ShapeException.class);
        assertThat(scope.usedBytes()).isEqualTo(before);
        assertThatThrownBy(scope::release).hasMessageContaining("release without a mark");
        assertThat(device.floats(kept)).containsExactly(1, 1, 1, 1);
    }

    @Test
    void aReleasedTensorCannotBeRead() {
        Tensor released = scope.within(() -> new Tensor[][] {{ones(3)}})[0][0];
        assertThatThrownBy(() -> device.floats(released)).hasMessageContaining("after its scope released it");
    }

    @Test
    void aTensorOfAClosedScopeCannotBeReadThoughATapeHoldsIt() {
        Scope other = new Scope(device);
        Tensor tensor = other.allocate(Spec.f32(3));
        other.hold(tensor);
        other.close();
        assertThatThrownBy(() -> device.floats(tensor)).hasMessageContaining("after its scope released it");
    }

    @Test
    void aViewBeyondTheAddressRangeIsRefused() {
        Tensor tensor = ones(4);
        assertThatThrownBy(() -> tensor.view((1L << 61) - 1, Shape.of(1L << 60)))
                .isInstanceOf(ShapeException.class);
        assertThatThrownBy(() -> scope.allocate(Spec.f32((1L << 61) - 1))).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Spec.f32(1L << 62).bytes()).isInstanceOf(ShapeException.class);
    }

    @Test
    void aChainMayPassOnViews() {
        Tensor x = ones(2, 3);
        Tensor y = ops.chain(
                x,
                List.of(
                        (o, a) -> o.reshape(a, Shape.of(3, 2)),
                        (o, a) -> o.scale(a, 2),
                        (o, a) -> o.reshape(a, Shape.of(6))));
        assertThat(device.floats(y)).containsExactly(2, 2, 2, 2, 2, 2);
        assertThat(device.floats(x)).hasSize(6).containsOnly(1);
    }

    @Test
    void aGradientThatARuleDoesNotGiveIsAnErrorNotZero() {
        Tensor weights = ones(2);
        Tensor labels = scope.allocate(Spec.i32(2));
        device.write(labels, 0, 1);
        Tape tape = new Tape(ops, List.of(weights), Checkpointing.OFF);
        Tensor loss = tape.crossEntropy(ones(2, 3), labels, weights);
        assertThatThrownBy(() -> tape.backward(loss)).hasMessageContaining("CrossEntropy: has no gradient for input 2");
    }

    @Test
    void aBufferOfAnotherSizeIsRefused() {
        Tensor tensor = ones(2);
        assertThatThrownBy(() -> device.write(tensor, 1f, 2f, 3f)).isInstanceOf(ShapeException.class);
        assertThatThrownBy(() -> device.read(tensor, ByteBuffer.allocate(4))).isInstanceOf(ShapeException.class);
    }
}
