package dev.starforge.conformance.emulator;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Plain;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Fused RoPE and KV store give the same bits as four launches, in every tensor. */
final class RopeStoreFusionTest {
    private final EmulatedBackend backend = new EmulatedBackend();

    @ParameterizedTest
    @CsvSource({
        "1, 3, 1, 16, 8, BF16, BF16, false",
        "5, 4, 2, 16, 8, F32, F16, false",
        "3, 2, 2, 20, 6, F16, F16, false",
        "4, 1, 1, 8, 4, F32, F32, false",
        "3, 2, 2, 16, 8, F32, F32, true",
    })
    void matchesUnfusedKernelsBitwise(
            int tokens, int heads, int kvHeads, int d, int half, DType x, DType cache, boolean over) {
        List<byte[]> apart = run(tokens, heads, kvHeads, d, half, x, cache, over, true);
        List<byte[]> together = run(tokens, heads, kvHeads, d, half, x, cache, over, false);
        assertThat(together).hasSize(4);
        for (int i = 0; i < together.size(); i++) {
            assertThat(together.get(i)).as("tensor %d", i).isEqualTo(apart.get(i));
        }
    }

    /**
     * Two tokens name a row, one names none. Threads run in the reversed order, so keys come before queries.
     *
     * @param over whether rotated keys lie over the queries that were rotated before them
     */
    private List<byte[]> run(
            int tokens, int heads, int kvHeads, int d, int half, DType x, DType cache, boolean over, boolean apart) {
        int height = 6;
        try (Device device = backend.open(new DeviceOptions(1, 0, Path.of("")));
                Scope scope = new Scope(device)) {
            Random random = new Random(7);
            Tensor q = drawn(device, scope, random, x, tokens, heads, d);
            Tensor k = drawn(device, scope, random, x, tokens, kvHeads, d);
            Tensor v = drawn(device, scope, random, x, tokens, kvHeads, d);
            Tensor keys = drawn(device, scope, random, cache, height, kvHeads, d);
            Tensor values = drawn(device, scope, random, cache, height, kvHeads, d);
            Tensor frequencies = drawn(device, scope, random, DType.F32, half);
            Tensor positions = scope.allocate(Spec.i32(tokens));
            Tensor rows = scope.allocate(Spec.i32(tokens));
            for (Tensor each : List.of(positions, rows)) {
                device.write(each, random.ints(tokens, -1, height).toArray());
            }
            Tensor yq = scope.allocate(q.spec());
            Tensor yk = over ? q : scope.allocate(k.spec());
            Fused.Rope rope = new Fused.Rope(1.1f, false);
            device.run(rope, new Tensor[] {q, positions, frequencies}, new Tensor[] {yq});
            look(device, yq, apart);
            device.run(rope, new Tensor[] {k, positions, frequencies}, new Tensor[] {yk});
            look(device, yk, apart);
            device.run(new Plain.Store(), new Tensor[] {keys, rows, yk}, new Tensor[0]);
            look(device, keys, apart);
            device.run(new Plain.Store(), new Tensor[] {values, rows, v}, new Tensor[0]);
            List<byte[]> all = new ArrayList<>();
            for (Tensor each : List.of(yq, yk, keys, values)) {
                all.add(bytes(device, each));
            }
            return all;
        }
    }

    /** Reads flush pending operations, so each runs unfused. */
    private static void look(Device device, Tensor tensor, boolean wanted) {
        if (wanted) {
            bytes(device, tensor);
        }
    }

    private static byte[] bytes(Device device, Tensor tensor) {
        ByteBuffer buffer = ByteBuffer.allocate((int) tensor.bytes());
        device.read(tensor, buffer);
        return buffer.array();
    }

    private static Tensor drawn(Device device, Scope scope, Random random, DType type, long... dims) {
        Tensor numbers = scope.allocate(new Spec(DType.F32, Shape.of(dims)));
        float[] values = new float[(int) numbers.shape().size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) random.nextGaussian();
        }
        device.write(numbers, values);
        if (type == DType.F32) {
            return numbers;
        }
        Tensor cast = scope.allocate(new Spec(type, numbers.shape()));
        device.run(new Plain.Cast(type), new Tensor[] {numbers}, new Tensor[] {cast});
        return cast;
    }
}
