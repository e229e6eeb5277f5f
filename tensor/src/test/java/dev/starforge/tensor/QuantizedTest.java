package dev.starforge.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.codec.MatrixCodec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.ForwardingDevice;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import dev.starforge.tensor.op.Tape;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Weights in blocks: what a tensor of them is, and that an operation on them is that operation on what they stand for. */
final class QuantizedTest {
    private final OnReference on = new OnReference();

    @AfterEach
    void close() {
        on.close();
    }

    static List<DType> quantizedTypes() {
        return Arrays.stream(DType.values()).filter(DType::isQuantized).toList();
    }

    /** Random weights of a type, and the same weights decoded. */
    private Tensor[] weights(DType type, long... dims) {
        Tensor tensor = on.scope.allocate(new Spec(type, Shape.of(dims)));
        float[] values = on.read(on.normal(7, dims));
        ByteBuffer blocks = ByteBuffer.allocate((int) tensor.bytes());
        int columns = (int) tensor.shape().last();
        int rows = (int) tensor.spec().height();
        int bytes = (int) tensor.spec().matrixBytes();
        for (int i = 0; i < tensor.spec().matrices(); i++) {
            ByteBuffer matrix = blocks.slice(i * bytes, bytes);
            float[] w = Arrays.copyOfRange(values, i * rows * columns, (i + 1) * rows * columns);
            MatrixCodec.of(type).encode(w, rows, columns, matrix);
            float[] decoded = MatrixCodec.of(type).decode(matrix, rows, columns);
            System.arraycopy(decoded, 0, values, i * rows * columns, decoded.length);
        }
        on.device.write(tensor, blocks);
        return new Tensor[] {tensor, on.floats(Shape.of(dims), values)};
    }

    @ParameterizedTest
    @EnumSource
    void everyWeightTypeHasAFormatOfItsSize(DType type) {
        if (!type.isWeight() || type.isPlanar()) {
            assertThatThrownBy(() -> BlockFormat.of(type)).isInstanceOf(TensorException.class);
            return;
        }
        BlockFormat format = BlockFormat.of(type);
        assertThat(format.dtype()).isEqualTo(type);
        assertThat(format.name()).isEqualTo(type.name());
        assertThat(new Spec(type, Shape.of(3, 2L * type.blockElements())).bytes())
                .isEqualTo(6L * type.blockBytes());
    }

    @Test
    void aBlockTypeIsNoFloatAndHasNoElementsOfItsOwn() {
        assertThat(DType.Q8_0.isFloat()).isFalse();
        assertThat(DType.Q8_0.isWeight()).isTrue();
        assertThat(DType.I32.isWeight()).isFalse();
        assertThatThrownBy(DType.Q8_0::bytes).isInstanceOf(ShapeException.class).hasMessageContaining("Q8_0");
        assertThatThrownBy(() -> new Spec(DType.Q4_K, Shape.of(2, 128)))
                .isInstanceOf(ShapeException.class)
                .hasMessage("Q4_K[2, 128]: rows of 128, expected a multiple of 256");
        assertThatThrownBy(() -> new Spec(DType.Q8_0, Shape.of())).isInstanceOf(ShapeException.class);
    }

    @Test
    void viewsAreWholeMatrices() {
        Tensor stack = on.scope.allocate(new Spec(DType.Q8_0, Shape.of(3, 70, 64)));
        long matrix = 70 * 64;
        assertThat(stack.view(matrix, Shape.of(70, 64)).offset() - stack.offset())
                .isEqualTo(70 * 2 * 34);
        assertThat(stack.view(matrix, Shape.of(2, 70, 64)).bytes()).isEqualTo(2 * 70 * 2 * 34);
        Tensor second = stack.view(matrix, Shape.of(70, 64));
        assertThat(second.view(0, Shape.of(1, 70, 64)).offset()).isEqualTo(second.offset());
        for (Runnable wrong : List.<Runnable>of(
                () -> second.view(64, Shape.of(32, 64)),
                () -> second.view(0, Shape.of(32, 64)),
                () -> second.view(32 * 64, Shape.of(32, 64)),
                () -> stack.view(64, Shape.of(70, 64)),
                () -> second.view(0, Shape.of(31, 64)),
                () -> second.view(64 * 64, Shape.of(32, 64)),
                () -> second.view(0, Shape.of(140, 32)),
                () -> second.view(0, Shape.of(70 * 64)),
                () -> stack.view(0, Shape.of(210, 64)),
                () -> stack.view(-matrix, Shape.of(70, 64)))) {
            assertThatThrownBy(wrong::run).isInstanceOf(ShapeException.class).hasMessageContaining("view of Q8_0");
        }
        assertThat(on.ops.reshape(stack, stack.shape()).spec()).isEqualTo(stack.spec());
    }

    /** Bits a weight of a matrix of 4096 x 4096. */
    @ParameterizedTest
    @CsvSource({
        "NF4, 4.5",
        "NF4_DOUBLE, 4.127",
        "Q8_0, 8.5",
        "INT8_128, 8.125",
        "GPTQ_32, 4.6328",
        "GPTQ_64, 4.3203",
        "GPTQ_128, 4.1641",
        "GPTQ_CHANNEL, 4.0127"
    })
    void sizeOfATypeIsThatOfItsPlanes(DType type, double bits) {
        Spec spec = new Spec(type, Shape.of(4096, 4096));
        assertThat(8.0 * spec.bytes() / spec.shape().size()).isCloseTo(bits, within(5e-4));
        assertThat(new Spec(type, Shape.of(3, 4096, 4096)).bytes()).isEqualTo(3 * spec.bytes());
        assertThat(type.planes(4096, 4096).stream().mapToLong(Plane::bytes).sum())
                .isEqualTo(spec.bytes());
    }

    @ParameterizedTest
    @MethodSource("quantizedTypes")
    void planesBeginWhereTheirElementsAreAligned(DType type) {
        for (long rows : new long[] {1, 5, 31, 130}) {
            long at = 0;
            for (Plane plane : type.planes(rows, 3L * type.blockElements())) {
                assertThat(at % plane.type().bytes()).as(plane.name()).isZero();
                at += plane.bytes();
            }
        }
    }

    @Test
    void aPlanarTypeHasNoBytesOfElements() {
        assertThatThrownBy(() -> DType.INT8_128.bytes(128)).isInstanceOf(ShapeException.class);
        assertThatThrownBy(DType.NF4_DOUBLE::blockBytes).hasMessageContaining("NF4_DOUBLE is stored in planes");
        assertThatThrownBy(() -> new Spec(DType.INT8_128, Shape.of(1 << 16, 1 << 16)).bytes())
                .hasMessageContaining("expected less than 2^31");
        assertThatThrownBy(() -> DType.INT8_128.planes(3, 100)).hasMessageContaining("multiples of 128");
    }

    @Test
    void partialBlocksAreRefused() {
        Tensor w = on.scope.allocate(new Spec(DType.Q4_0, Shape.of(2, 32)));
        assertThatThrownBy(() -> on.device.write(w, ByteBuffer.allocate(18)))
                .isInstanceOf(ShapeException.class)
                .hasMessageContaining("Q4_0[2, 32]");
    }

    @Test
    void piecesComeInOrder() {
        Tensor w = on.scope.allocate(new Spec(DType.INT8_128, Shape.of(2, 128)));
        on.device.write(w, 0, ByteBuffer.allocate(100));
        for (Runnable wrong : List.<Runnable>of(
                () -> on.device.write(w, 99, ByteBuffer.allocate(1)),
                () -> on.device.write(w, 101, ByteBuffer.allocate(1)),
                () -> on.device.write(w, 100, ByteBuffer.allocate(161)))) {
            assertThatThrownBy(wrong::run)
                    .isInstanceOf(ShapeException.class)
                    .hasMessageContaining("INT8_128[2, 128], expected the next from 100, up to 260");
        }
        on.device.write(w, 100, ByteBuffer.allocate(160));
        assertThatThrownBy(() -> on.device.write(w, 260, ByteBuffer.allocate(1)))
                .isInstanceOf(ShapeException.class);
        on.device.write(w, 0, ByteBuffer.allocate(260));
    }

    @ParameterizedTest
    @MethodSource("quantizedTypes")
    void matMulAndGatherEqualThoseOfTheDecodedWeights(DType type) {
        int k = 2 * type.blockElements();
        Tensor[] w = weights(type, 5, k);
        Tensor[] stack = weights(type, 2, 5, k);
        Tensor x = on.normal(1, 3, k);
        Tensor d = on.normal(2, 3, 5);
        Tensor offsets = on.ints(0, 2, 3);
        assertThat(on.read(on.ops.project(x, w[0]))).isEqualTo(on.read(on.ops.project(x, w[1])));
        assertThat(on.read(on.ops.run(new Plain.MatMul(false, false), d, w[0])))
                .isEqualTo(on.read(on.ops.run(new Plain.MatMul(false, false), d, w[1])));
        assertThat(on.read(on.ops.run(new Routing.ExpertMatMul(true), x, stack[0], offsets)))
                .isEqualTo(on.read(on.ops.run(new Routing.ExpertMatMul(true), x, stack[1], offsets)));
        assertThat(on.read(on.ops.gather(w[0], on.ints(4, 0)))).isEqualTo(on.read(on.ops.gather(w[1], on.ints(4, 0))));
        assertThat(on.read(on.ops.run(new Plain.Cast(DType.F32), stack[0]))).isEqualTo(on.read(stack[1]));
    }

    @Test
    void otherOperationsRefuseQuantizedTensors() {
        Tensor w = weights(DType.Q8_0, 64, 64)[0];
        Tensor x = on.normal(1, 64, 64);
        Tensor rows = on.ints(0);
        for (Runnable wrong : List.<Runnable>of(
                () -> on.ops.add(x, w),
                () -> on.ops.project(w, x),
                () -> on.ops.run(new Plain.MatMul(true, true), x, w),
                () -> on.ops.run(new Plain.Cast(DType.F16), w),
                () -> on.ops.store(w, rows, on.normal(3, 1, 64)),
                () -> on.ops.run(new Plain.Slice(0, 32), w),
                () -> on.ops.gather(on.scope.allocate(new Spec(DType.Q8_0, Shape.of(2, 2, 32))), rows),
                () -> new Plain.Cast(DType.Q8_0))) {
            assertThatThrownBy(wrong::run).isInstanceOf(ShapeException.class);
        }
        assertThatThrownBy(() -> Precision.FLOAT32.withKv(DType.Q8_0)).isInstanceOf(ShapeException.class);
        assertThat(Precision.FLOAT32.withStorage(DType.NF4).storage()).isEqualTo(DType.NF4);
    }

    @Test
    void gradientsPassThroughFrozenWeights() {
        Tensor[] w = weights(DType.Q4_0, 5, 64);
        Tensor x = on.normal(1, 3, 64);
        Tensor d = on.normal(2, 3, 5);
        float[][] gradients = new float[2][];
        for (int i = 0; i < 2; i++) {
            Tape tape = new Tape(on.ops, List.of(x), Checkpointing.OFF);
            gradients[i] = on.read(tape.backward(tape.project(x, w[i]), d).getFirst());
        }
        assertThat(gradients[0]).isEqualTo(gradients[1]);
        assertThatThrownBy(() -> new Tape(on.ops, List.of(x, w[0]), Checkpointing.OFF))
                .isInstanceOf(TensorException.class)
                .hasMessage("Tape: parameter Q4_0[5, 64] is quantized; such weights are frozen");
    }

    @Test
    void unsupportedTypesAreReported() {
        Device narrow = new Narrow(on.device);
        try (Scope scope = new Scope(narrow)) {
            Tensor w = scope.allocate(new Spec(DType.Q8_0, Shape.of(2, 32)));
            Tensor x = scope.allocate(Spec.f32(1, 32));
            assertThatThrownBy(() ->
                            narrow.ops(scope, Precision.FLOAT32, Fallback.QUIET).project(x, w))
                    .isInstanceOf(DeviceException.class)
                    .hasMessage("MatMul: narrow cannot run it on [F32[1, 32], Q8_0[2, 32]]");
            NullOps plan = new NullOps(narrow, Precision.FLOAT32, Fallback.QUIET);
            Tensor planned = plan.scope().allocate(w.spec());
            assertThatThrownBy(() -> plan.project(plan.scope().allocate(x.spec()), planned))
                    .isInstanceOf(DeviceException.class)
                    .hasMessageStartingWith("MatMul: narrow (plan) cannot run it");
        }
    }

    /** The reference without quantized weights. */
    private static final class Narrow extends ForwardingDevice {
        Narrow(Device device) {
            super(device);
        }

        @Override
        public String name() {
            return "narrow";
        }

        @Override
        public Support supports(Op op, Spec... in) {
            return List.of(in).stream().anyMatch(spec -> spec.dtype().isQuantized()) ? Support.NONE : Support.NATIVE;
        }

        @Override
        public void close() {} // the device behind is the test's own
    }
}
