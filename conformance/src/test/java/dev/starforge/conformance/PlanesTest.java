package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Plain;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** A quantized tensor reads back as written, whole or in parts, whatever layout the device uses. */
final class PlanesTest {
    static Stream<Arguments> everyFormatOnEveryDevice() {
        return Stream.of("reference", "cpu")
                .flatMap(device -> Arrays.stream(DType.values())
                        .filter(DType::isQuantized)
                        .map(type -> Arguments.of(device, type)));
    }

    private static Device open(String name) {
        return Selection.choose(name)
                .backend()
                .open(new DeviceOptions(0, name.equals("cpu") ? 2 : 1, Path.of("target")));
    }

    /** Any bytes at all, neighbours included: no device looks at what they mean before an operation does. */
    @ParameterizedTest
    @MethodSource("everyFormatOnEveryDevice")
    void readsBackWrittenBytes(String name, DType type) {
        Random random = new Random(type.ordinal());
        try (Device device = open(name);
                Scope scope = new Scope(device)) {
            for (int height : new int[] {1, 5, 31, 32, 33, 130}) {
                for (int matrices : new int[] {1, 3}) {
                    Spec spec = new Spec(type, Shape.of(matrices, height, 3L * type.blockElements()));
                    Tensor tensor = scope.allocate(spec);
                    byte[] bytes = new byte[(int) spec.bytes()];
                    for (int piece : List.of(bytes.length, 1 + bytes.length / 2, 997, 10_007)) {
                        random.nextBytes(bytes);
                        for (int at = 0; at < bytes.length; at += piece) {
                            int now = Math.min(piece, bytes.length - at);
                            device.write(tensor, at, ByteBuffer.wrap(bytes, at, now));
                        }
                        assertThat(read(device, tensor))
                                .as("%s in pieces of %d", spec, piece)
                                .isEqualTo(bytes);
                    }
                    Tensor last = tensor.view(
                            (matrices - 1) * spec.height() * spec.shape().last(), matrix(spec));
                    byte[] one = new byte[(int) last.bytes()];
                    random.nextBytes(one);
                    device.write(last, ByteBuffer.wrap(one));
                    System.arraycopy(one, 0, bytes, bytes.length - one.length, one.length);
                    assertThat(read(device, tensor)).isEqualTo(bytes);
                }
            }
        }
    }

    private static Shape matrix(Spec spec) {
        return Shape.of(spec.height(), spec.shape().last());
    }

    private static byte[] read(Device device, Tensor tensor) {
        ByteBuffer back = ByteBuffer.allocateDirect((int) tensor.bytes());
        device.read(tensor, back);
        byte[] bytes = new byte[back.capacity()];
        back.rewind().get(bytes);
        return bytes;
    }

    /** Written in pieces, the weights are those that the codec finds in the bytes. */
    @ParameterizedTest
    @MethodSource("everyFormatOnEveryDevice")
    void decodesInPartsToSameValues(String name, DType type) {
        Spec spec = new Spec(type, Shape.of(2, 70, 2L * type.blockElements()));
        HostTensor drawn = HostTensor.of(spec, i -> Math.sin(i * 0.7) / (1 + i % 13));
        try (Device device = open(name);
                Scope scope = new Scope(device)) {
            Tensor tensor = scope.allocate(spec);
            ByteBuffer bytes = drawn.bytes();
            for (int at = 0; at < bytes.capacity(); at += 1009) {
                device.write(tensor, at, bytes.slice(at, Math.min(1009, bytes.capacity() - at)));
            }
            Tensor floats =
                    device.ops(scope, Precision.FLOAT32, Fallback.FORBIDDEN).run(new Plain.Cast(DType.F32), tensor);
            float[] decoded = device.floats(floats);
            for (int i = 0; i < decoded.length; i++) {
                assertThat((double) decoded[i]).as("element %d", i).isEqualTo(drawn.at(i));
            }
        }
    }
}
