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
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A fused norm and matmul give the same bits as separate launches, in every tensor. */
final class NormMatMulFusionTest {
    private final EmulatedBackend backend = new EmulatedBackend();

    @ParameterizedTest
    @CsvSource({
        "false, false, 3072, 1, BF16, BF16, false",
        "false, true, 3072, 3, BF16, Q4_0, false",
        "true, false, 2048, 2, F16, Q8_0, false",
        "true, true, 4096, 1, BF16, NF4, false",
        "false, true, 2048, 1, BF16, BF16, true",
    })
    void matchesUnfusedKernelsBitwise(
            boolean rms, boolean adds, int terms, int weights, DType x, DType w, boolean over) {
        List<HostTensor> apart = run(rms, adds, terms, weights, x, w, over, true);
        assertThat(backend.launched()).doesNotContain(Kernel.NORM_GEMV);
        List<HostTensor> together = run(rms, adds, terms, weights, x, w, over, false);
        assertThat(backend.launched().contains(Kernel.NORM_GEMV)).isEqualTo(!over);
        for (int i = 0; i < together.size(); i++) {
            assertThat(together.get(i).firstDifference(apart.get(i)))
                    .as("tensor %d", i)
                    .isEqualTo(-1);
        }
    }

    /** @param over whether the output overlaps the normalized row, which other groups may still read */
    private List<HostTensor> run(
            boolean rms, boolean adds, int terms, int weights, DType x, DType w, boolean over, boolean apart) {
        Op norm = adds
                ? rms ? new Layers.AddRmsNorm(1e-5f) : new Layers.AddLayerNorm(1e-5f)
                : rms ? new Fused.RmsNorm(1e-5f) : new Fused.LayerNorm(1e-5f);
        Op product = new Layers.Linear(weights, true, Fn.GELU_TANH, false, x, false);
        try (Device device = backend.open(new DeviceOptions(1, 0, Path.of("")));
                Scope scope = new Scope(device)) {
            Tensor[] rows = drawn(scope, 1, adds ? 2 : 1, x, 1, terms);
            Tensor[] scales = drawn(scope, 3, rms ? 1 : 2, DType.F32, terms);
            Tensor[] matrices = drawn(scope, 5, weights, w, 48, terms);
            Tensor[] biases = drawn(scope, 8, weights, DType.F32, 48);
            Tensor[] in = together(rows, scales);
            Tensor[] normed = allocate(scope, norm, in);
            Tensor[] factors = together(new Tensor[] {normed[adds ? 1 : 0]}, matrices, biases);
            Tensor[] y = allocate(scope, product, factors);
            if (over) {
                y[0] = rows[0].view(0, y[0].shape());
            }
            device.run(norm, in, normed);
            if (apart) {
                OpRunner.download(device, normed[0]); // reading a result waits for everything before it
            }
            device.run(product, factors, y);
            return Stream.of(normed, y)
                    .flatMap(Arrays::stream)
                    .map(each -> OpRunner.download(device, each))
                    .toList();
        }
    }

    private static Tensor[] together(Tensor[]... some) {
        return Stream.of(some).flatMap(Arrays::stream).toArray(Tensor[]::new);
    }

    private static Tensor[] allocate(Scope scope, Op op, Tensor... in) {
        Spec[] specs = op.outputs(Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new));
        return Arrays.stream(specs).map(scope::allocate).toArray(Tensor[]::new);
    }

    private static Tensor[] drawn(Scope scope, int site, int count, DType type, long... dims) {
        return OpRunner.upload(
                scope,
                IntStream.range(site, site + count)
                        .mapToObj(each -> HostTensor.of(new Spec(type, Shape.of(dims)), i -> Case.bell(1, each, i)))
                        .toArray(HostTensor[]::new));
    }
}
