package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.conformance.emulator.EmulatedBackend;
import dev.starforge.kernels.Kernel;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Plain;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Fused RoPE, KV store and attention of one token give the same bits as separate launches, in every tensor. */
final class AppendAttentionTest {
    private static final int BLOCK = 16;
    private static final int D = 128;

    private final EmulatedBackend backend = new EmulatedBackend();

    /** Short and long sequences, with and without a window, a token that is not stored, and one without a sequence. */
    @ParameterizedTest
    @CsvSource({
        "3, 1, 0, 0, BF16, 1, 0",
        "12, 1, 37, 0, BF16, 1, 37",
        "6, 2, 300, 0, F16, 1, 300",
        "4, 4, 150, 40, BF16, 1, 150",
        "2, 1, 20, 0, BF16, 1, -1",
        "2, 2, 20, 0, BF16, 0, 20",
    })
    void matchesUnfusedKernelsBitwise(
            int heads, int kvHeads, int position, int window, DType type, int tokens, int row) {
        List<HostTensor> apart = run(heads, kvHeads, position, window, type, tokens, row, true);
        assertThat(backend.launched()).doesNotContain(Kernel.APPEND_ATTENTION);
        List<HostTensor> together = run(heads, kvHeads, position, window, type, tokens, row, false);
        assertThat(backend.launched()).contains(Kernel.APPEND_ATTENTION);
        for (int i = 0; i < together.size(); i++) {
            assertThat(together.get(i).firstDifference(apart.get(i)))
                    .as("tensor %d", i)
                    .isEqualTo(-1);
        }
    }

    private List<HostTensor> run(
            int heads, int kvHeads, int position, int window, DType type, int tokens, int row, boolean apart) {
        int blocks = position / BLOCK + 2;
        try (Device device = backend.open(new DeviceOptions(1, 0, Path.of("")));
                Scope scope = new Scope(device)) {
            Tensor q = drawn(scope, 1, type, 1, heads, D);
            Tensor k = drawn(scope, 2, type, 1, kvHeads, D);
            Tensor v = drawn(scope, 3, type, 1, kvHeads, D);
            Tensor keys = drawn(scope, 4, type, (long) blocks * BLOCK, kvHeads, D);
            Tensor values = drawn(scope, 5, type, (long) blocks * BLOCK, kvHeads, D);
            Tensor frequencies = drawn(scope, 6, DType.F32, D / 2);
            Tensor positions = whole(scope, position);
            int at = row < 0 ? row : (blocks - 1 - position / BLOCK) * BLOCK + position % BLOCK;
            Tensor rows = whole(scope, at);
            Tensor starts = whole(scope, 0, tokens);
            int[] table = new int[blocks]; // in the reversed order
            for (int i = 0; i < blocks; i++) {
                table[i] = blocks - 1 - i;
            }
            Tensor tables = OpRunner.upload(scope, HostTensor.of(Spec.i32(1, blocks), i -> table[i]))[0];
            Tensor yq = scope.allocate(q.spec());
            Tensor yk = scope.allocate(k.spec());
            Tensor y = scope.allocate(q.spec());
            Tensor lse = scope.allocate(Spec.f32(1, heads));
            Fused.Rope rope = new Fused.Rope(1.1f, false);
            device.run(rope, new Tensor[] {q, positions, frequencies}, new Tensor[] {yq});
            device.run(rope, new Tensor[] {k, positions, frequencies}, new Tensor[] {yk});
            device.run(new Plain.Store(), new Tensor[] {keys, rows, yk}, new Tensor[0]);
            device.run(new Plain.Store(), new Tensor[] {values, rows, v}, new Tensor[0]);
            if (apart) {
                OpRunner.download(device, yq); // reading a result waits for everything before it
            }
            device.run(
                    new Fused.Attention(0.09f, window, BLOCK),
                    new Tensor[] {yq, keys, values, starts, positions, tables},
                    new Tensor[] {y, lse});
            return List.of(yq, yk, keys, values, y, lse).stream()
                    .map(each -> OpRunner.download(device, each))
                    .toList();
        }
    }

    private static Tensor whole(Scope scope, int... numbers) {
        return OpRunner.upload(scope, HostTensor.of(Spec.i32(numbers.length), i -> numbers[i]))[0];
    }

    private static Tensor drawn(Scope scope, int site, DType type, long... dims) {
        return OpRunner.upload(scope, HostTensor.of(new Spec(type, Shape.of(dims)), i -> Case.bell(1, site, i)))[0];
    }
}
