package dev.starforge.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.op.Plain;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.EnumSource.Mode;

/** Weights that are a file's own bytes give what copies give, and a file that is cut ends in an error, not the process. */
final class MappedTest {
    private static final int N = 96;
    private static final int K = 4096;
    private static final int HEADER = 42; // so that no row is aligned

    @TempDir
    Path folder;

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"F32", "F16", "BF16"},
            mode = Mode.INCLUDE)
    void mappedMatMulsEqualThoseOfACopy(DType type) throws IOException {
        byte[] weights = weights(type, 1);
        FileRegion region = file(weights);
        for (int tokens : new int[] {1, 3, 40}) {
            try (Device device = new CpuDevice(2, MachineCode.choose(Set.of()));
                    Scope scope = new Scope(device)) {
                Spec spec = new Spec(type, Shape.of(N, K));
                Tensor copy = scope.allocate(spec);
                device.write(copy, ByteBuffer.wrap(weights));
                assertThat(product(scope, tokens, scope.map(spec, region)))
                        .as("%s, %d tokens", type, tokens)
                        .containsExactly(product(scope, tokens, copy));
            }
        }
    }

    /** Long enough for every loop to be compiled, whose faults are another matter than those of the interpreter. */
    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"F32", "F16", "BF16"},
            mode = Mode.INCLUDE)
    void aTruncatedFileIsNamed(DType type) throws IOException {
        FileRegion region = file(weights(type, 2));
        try (Device device = new CpuDevice(2, MachineCode.choose(Set.of()));
                Scope scope = new Scope(device)) {
            Tensor weights = scope.map(new Spec(type, Shape.of(N, K)), region);
            for (int i = 0; i < 400; i++) {
                scope.mark();
                product(scope, i % 8 == 0 ? 40 : 1, weights);
                scope.release();
            }
            try (FileChannel cut = FileChannel.open(region.file(), StandardOpenOption.WRITE)) {
                cut.truncate(8192);
            }
            for (int tokens : new int[] {1, 40}) {
                assertThatThrownBy(() -> product(scope, tokens, weights))
                        .isInstanceOf(DeviceException.class)
                        .hasMessageContaining(region.file().toString());
            }
        }
    }

    private FileRegion file(byte[] weights) throws IOException {
        Path file = folder.resolve("weights");
        byte[] all = new byte[HEADER + weights.length];
        System.arraycopy(weights, 0, all, HEADER, weights.length);
        Files.write(file, all);
        return new FileRegion(file, HEADER, weights.length);
    }

    private static byte[] weights(DType type, int seed) {
        Random random = new Random(seed);
        ByteBuffer bytes = ByteBuffer.allocate((int) type.bytes(N * K)).order(ByteOrder.LITTLE_ENDIAN);
        while (bytes.hasRemaining()) {
            float value = (float) random.nextGaussian();
            if (type == DType.F32) {
                bytes.putFloat(value);
            } else {
                bytes.putShort(type.narrow(value));
            }
        }
        return bytes.array();
    }

    private static float[] product(Scope scope, int tokens, Tensor weights) {
        Random random = new Random(3);
        float[] x = new float[tokens * K];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) random.nextGaussian();
        }
        Tensor in = scope.allocate(Spec.f32(tokens, K));
        scope.device().write(in, x);
        Tensor out = scope.allocate(Spec.f32(tokens, N));
        Device.of(scope).run(new Plain.MatMul(false, true), new Tensor[] {in, weights}, new Tensor[] {out});
        return scope.device().floats(out);
    }
}
