package dev.starforge.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.tensor.op.Broadcast;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import org.junit.jupiter.api.Test;

final class ShapeTest {
    @Test
    void countsElementsRowsAndTheLastDimension() {
        Shape shape = Shape.of(3, 5, 7);
        assertThat(shape.size()).isEqualTo(105);
        assertThat(shape.rows()).isEqualTo(15);
        assertThat(shape.last()).isEqualTo(7);
        assertThat(shape.dim(-3)).isEqualTo(3);
        assertThat(shape).hasToString("[3, 5, 7]");
    }

    @Test
    void aScalarIsOneRowOfOneElement() {
        assertThat(Shape.of().size()).isEqualTo(1);
        assertThat(Shape.of().rows()).isEqualTo(1);
        assertThat(Shape.of().last()).isEqualTo(1);
    }

    @Test
    void zeroIsADimension() {
        assertThat(Shape.of(5, 0).size()).isZero();
        assertThat(Shape.of(5, 0).rows()).isEqualTo(5);
        assertThat(Shape.of(0, 5).rows()).isZero();
    }

    @Test
    void refusesNegativeAndTooLargeDimensions() {
        assertThatThrownBy(() -> Shape.of(3, -1))
                .isInstanceOf(ShapeException.class)
                .hasMessage("shape [3, -1]: dimensions must not be negative");
        assertThatThrownBy(() -> Shape.of(1L << 32, 1L << 31))
                .isInstanceOf(ShapeException.class)
                .hasMessageContaining("more elements than 2^63");
    }

    @Test
    void refusesAnAxisItDoesNotHave() {
        assertThatThrownBy(() -> Shape.of(3).dim(1)).isInstanceOf(ShapeException.class);
        assertThatThrownBy(() -> Shape.of(3).dim(-2)).isInstanceOf(ShapeException.class);
        assertThatThrownBy(() -> Shape.of().withLast(1)).isInstanceOf(ShapeException.class);
        assertThatThrownBy(() -> Shape.of().withFirst(1)).isInstanceOf(ShapeException.class);
    }

    @Test
    void isAValue() {
        long[] dims = {2, 3};
        Shape shape = Shape.of(dims);
        dims[0] = 9;
        shape.dims()[1] = 9;
        assertThat(shape)
                .isEqualTo(Shape.of(2, 3))
                .hasSameHashCodeAs(Shape.of(2, 3))
                .isNotEqualTo(Shape.of(3, 2));
        assertThat(shape.withLast(4)).isEqualTo(Shape.of(2, 4));
        assertThat(shape.withFirst(4)).isEqualTo(Shape.of(4, 3));
    }

    @Test
    void endsWithComparesTrailingDimensions() {
        assertThat(Shape.of(2, 3, 5).endsWith(Shape.of(3, 5))).isTrue();
        assertThat(Shape.of(2, 3, 5).endsWith(Shape.of(5))).isTrue();
        assertThat(Shape.of(2, 3, 5).endsWith(Shape.of(2, 3))).isFalse();
        assertThat(Shape.of(5).endsWith(Shape.of(3, 5))).isFalse();
    }

    @Test
    void broadcastsInThreeWaysOnly() {
        Op op = new Plain.Add();
        assertThat(Broadcast.of(op, Shape.of(2, 3), Shape.of(2, 3))).isEqualTo(Broadcast.SAME);
        assertThat(Broadcast.of(op, Shape.of(2, 3), Shape.of(3))).isEqualTo(Broadcast.ROW);
        assertThat(Broadcast.of(op, Shape.of(2, 3), Shape.of(2, 1))).isEqualTo(Broadcast.COLUMN);
        assertThatThrownBy(() -> Broadcast.of(op, Shape.of(2, 3), Shape.of(2)))
                .isInstanceOf(ShapeException.class)
                .hasMessageStartingWith("Add: [2] does not broadcast to [2, 3]");
    }
}
