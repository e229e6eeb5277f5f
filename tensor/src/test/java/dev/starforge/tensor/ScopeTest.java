package dev.starforge.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.host.HostMemory;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

final class ScopeTest {
    private static final long UNIT = Allocator.ALIGNMENT;

    private final OnReference on = new OnReference();
    private final Scope scope = on.scope;

    @AfterEach
    void close() {
        on.close();
    }

    private Tensor allocate(long units) {
        return scope.allocate(Spec.f32(units * UNIT / 4));
    }

    private List<Long> step() {
        List<Long> addresses = new ArrayList<>();
        scope.mark();
        addresses.add(allocate(3).offset());
        scope.mark();
        addresses.add(allocate(1).offset());
        Tensor escapes = allocate(5);
        addresses.add(escapes.offset());
        scope.release(escapes);
        addresses.add(allocate(1).offset());
        addresses.add(allocate(2).offset());
        scope.release();
        return addresses;
    }

    @Test
    void theSameStepHasTheSameAddresses() {
        List<Long> first = step();
        assertThat(step()).isEqualTo(first);
        assertThat(first).as("the fourth fills the gap the second left").containsExactly(0L, 768L, 1024L, 768L, 2304L);
    }

    @Test
    void tensorsAliveAtOneTimeDoNotOverlap() {
        Tensor a = allocate(3);
        Tensor b = scope.allocate(Spec.f32(1));
        Tensor c = allocate(1);
        assertThat(List.of(a.offset(), b.offset(), c.offset())).containsExactly(0L, 3 * UNIT, 4 * UNIT);
    }

    @Test
    void adjacentFreeBlocksAreMerged() {
        Allocator allocator = new Allocator(on.device);
        Storage a = allocator.allocate(UNIT);
        Storage b = allocator.allocate(UNIT);
        Storage c = allocator.allocate(UNIT);
        Storage end = allocator.allocate(UNIT);
        allocator.free(a);
        allocator.free(c);
        assertThat(allocator.allocate(2 * UNIT).offset())
                .as("neither gap is large enough")
                .isEqualTo(4 * UNIT);
        allocator.free(b);
        assertThat(allocator.allocate(3 * UNIT).offset()).isEqualTo(a.offset());
        assertThat(allocator.used()).isEqualTo(6 * UNIT);
        assertThat(end.offset()).isEqualTo(3 * UNIT);
        allocator.close();
    }

    @Test
    void anEmptyTensorHasAPlaceToo() {
        Tensor empty = scope.allocate(Spec.f32(0, 7));
        Tensor other = scope.allocate(Spec.f32(0));
        assertThat(empty.offset()).isNotEqualTo(other.offset());
        assertThat(scope.usedBytes()).isEqualTo(2 * UNIT);
    }

    @Test
    void countsWhatIsHandedOutAndTheMostOfIt() {
        scope.mark();
        allocate(4);
        allocate(1);
        scope.release();
        allocate(2);
        assertThat(scope.usedBytes()).isEqualTo(2 * UNIT);
        assertThat(scope.peakBytes()).isEqualTo(5 * UNIT);
        assertThat(scope.reservedBytes()).isGreaterThanOrEqualTo(5 * UNIT);
    }

    @Test
    void growsBeyondTheFirstChunk() {
        Tensor small = allocate(1);
        Tensor large = scope.allocate(Spec.f32(1 << 20));
        assertThat(large.memory()).isNotSameAs(small.memory());
        assertThat(large.memory().bytes()).isGreaterThanOrEqualTo(4L << 20);
    }

    @Test
    void anEscapingTensorBelongsToTheOuterScope() {
        scope.mark();
        scope.mark();
        Tensor escapes = on.row(1, 2, 3);
        Tensor stays = on.row(4);
        scope.release(escapes);
        assertThat(on.read(on.ops.scale(escapes, 2))).containsExactly(2, 4, 6);
        assertThatThrownBy(() -> on.ops.scale(stays, 2)).isInstanceOf(TensorException.class);
        scope.release();
        assertThatThrownBy(() -> on.ops.scale(escapes, 2))
                .isInstanceOf(TensorException.class)
                .hasMessage("tensor F32[3] is used after its scope released it");
        assertThat(scope.usedBytes()).isZero();
    }

    @Test
    void anEscapingViewKeepsItsTensor() {
        scope.mark();
        Tensor view = on.row(1, 2, 3, 4).view(2, Shape.of(2));
        scope.release(view);
        on.row(9, 9, 9, 9);
        assertThat(on.read(view)).containsExactly(3, 4);
    }

    @Test
    void escapingTwiceOrFromFurtherOutIsHarmless() {
        Tensor outer = on.row(1);
        scope.mark();
        Tensor inner = on.row(2);
        scope.release(outer, inner, inner);
        assertThat(scope.usedBytes()).isEqualTo(2 * UNIT);
        assertThat(on.read(inner)).containsExactly(2);
    }

    @Test
    void aHeldTensorOutlivesItsRelease() {
        scope.mark();
        Tensor held = on.row(5);
        scope.hold(held);
        scope.release();
        assertThat(on.read(on.ops.scale(held, 1))).containsExactly(5);
        scope.drop(held);
        assertThatThrownBy(() -> scope.drop(held)).isInstanceOf(TensorException.class);
    }

    @Test
    void releasesEachMarkOnce() {
        scope.mark();
        scope.release();
        assertThatThrownBy(scope::release).isInstanceOf(TensorException.class).hasMessage("release without a mark");
    }

    @Test
    void aBlockIsNotReleasedTwice() {
        Storage block = new Allocator(on.device).allocate(1);
        assertThat(block.drop()).isTrue();
        assertThatThrownBy(block::drop)
                .isInstanceOf(TensorException.class)
                .hasMessage("block of 256 bytes released twice");
    }

    @Test
    void freeingABlockOfAnotherAllocatorIsRefused() {
        Storage block = new Allocator(on.device).allocate(1);
        Allocator other = new Allocator(on.device);
        assertThatThrownBy(() -> other.free(block))
                .isInstanceOf(TensorException.class)
                .hasMessageContaining("belongs to another allocator");
    }

    @Test
    void aClosedScopeRefusesEverything() {
        Tensor tensor = on.row(1);
        scope.close();
        assertThatThrownBy(() -> allocate(1))
                .isInstanceOf(TensorException.class)
                .hasMessageContaining("closed");
        assertThatThrownBy(() -> on.ops.scale(tensor, 1)).isInstanceOf(TensorException.class);
        scope.close();
    }

    @Test
    void aViewStaysInsideItsBlock() {
        Tensor tensor = allocate(1);
        assertThat(tensor.view(3, Shape.of(61)).offset()).isEqualTo(tensor.offset() + 12);
        assertThatThrownBy(() -> tensor.view(4, Shape.of(61))).isInstanceOf(ShapeException.class);
        assertThatThrownBy(() -> tensor.view(-1, Shape.of(1))).isInstanceOf(ShapeException.class);
    }

    @Test
    void expectedMemoryIsReservedOnce() {
        scope.expect(List.of(3 * UNIT, 1L, 2 * UNIT));
        assertThat(scope.reservedBytes()).isEqualTo(6 * UNIT);
        allocate(2);
        allocate(3);
        scope.allocate(Spec.f32(1));
        assertThat(scope.reservedBytes()).isEqualTo(scope.usedBytes()).isEqualTo(6 * UNIT);
        allocate(1);
        assertThat(scope.reservedBytes()).isEqualTo(6 * UNIT + (1 << 20));
    }

    @Test
    void aFailedReservationReservesNothing() {
        List<Long> tooMuch = List.of(UNIT, Long.MAX_VALUE / 2);
        assertThatThrownBy(() -> scope.expect(tooMuch))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("out of memory");
        assertThat(scope.reservedBytes()).isZero();
        assertThatThrownBy(() -> HostMemory.all(tooMuch, HostMemory.HostAllocator.JAVA))
                .isInstanceOf(DeviceException.class)
                .hasMessageContaining("out of memory");
    }
}
