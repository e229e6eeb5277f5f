package dev.starforge.cpu.matmul;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cpu.CpuBackend;
import dev.starforge.cpu.core.Panels;
import dev.starforge.cpu.machine.PanelFormat;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.codec.MatrixCodec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.EagerOps;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Plain;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Weights in panels: nothing is lost on the way in, and products are right, alone and among others. */
class PanelMatMulTest {
    private static final int[] ROWS = {5, 64, 97};
    private static final int[] BLOCKS = {1, 9};
    private static final int[] TOKENS = {1, 4, 5, 13, 150};
    private static final int[] FEWER_TOKENS = {5, 13};

    /** The best machine code there is here, AVX2's, and the Vector API. */
    private static final Set<String> BEST = Set.of();

    private static final List<Set<String>> OTHERS = List.of(Set.of("avx512_vnni"), DeviceOptions.NO_MACHINE_CODE);

    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_ALL, names = "Q.*|NF4.*|MXFP4|INT8.*|GPTQ.*")
    void readReturnsTheBytesWritten(DType type) {
        try (Device device = device(2);
                Scope scope = new Scope(device)) {
            for (int n : ROWS) {
                ByteBuffer file = weights(type, n, 3 * type.blockElements(), new float[n * 3 * type.blockElements()]);
                Tensor w = scope.allocate(new Spec(type, Shape.of(n, 3 * type.blockElements())));
                device.write(w, file.duplicate());
                ByteBuffer back = ByteBuffer.allocateDirect(file.capacity());
                device.read(w, back);
                assertThat(back.rewind()).isEqualTo(file);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_ALL, names = "Q.*|NF4.*|MXFP4|INT8.*|GPTQ.*")
    void exactMatMulsAreCorrect(DType type) {
        products(type, true);
    }

    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_ALL, names = "Q.*|NF4.*|MXFP4|INT8.*|GPTQ.*")
    void int8MatMulsLoseAtMostHalfAStepOfX(DType type) {
        products(type, false);
    }

    /** More tokens than are taken at once, and more elements than a stretch; the last token is in another sweep than the first. */
    @ParameterizedTest
    @EnumSource(
            names = {
                "Q4_0",
                "Q4_1",
                "Q5_0",
                "Q8_0",
                "Q4_K",
                "Q5_K",
                "Q6_K",
                "NF4",
                "NF4_DOUBLE",
                "INT8_128",
                "GPTQ_32",
                "GPTQ_CHANNEL"
            })
    void largeMatMulsAreCorrect(DType type) {
        int k = type.blockElements() >= 128 ? 1280 : 1088;
        float[] decoded = new float[33 * k];
        ByteBuffer file = weights(type, 33, k, decoded);
        float[] x = numbers(new Random(11), 600 * k);
        float[] y = run(type, file, 33, k, x, 600, false, 2);
        check(type, x, decoded, y, 600, 33, k, false);
        assertThat(Arrays.copyOf(y, 33)).isEqualTo(run(type, file, 33, k, x, 1, false, 1));
        float[] last = Arrays.copyOfRange(x, 599 * k, 600 * k);
        assertThat(Arrays.copyOfRange(y, 599 * 33, 600 * 33)).isEqualTo(run(type, file, 33, k, last, 1, false, 1));
    }

    /**
     * Gradients of activations go the other way through a weight: x[M, N] w[N, K]. Rows of the weight are then the terms of a
     * sum, in blocks of at most 512 that need not be whole panels; columns are more than a sweep takes.
     */
    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_ALL, names = "Q.*|NF4.*|MXFP4|INT8.*|GPTQ.*")
    void transposedMatMulsEqualThoseOfTheDecodedWeight(DType type) {
        boolean same = !QuantizedValues.areWhole(type) || !Panels.has(type); // the others fuse code and shift
        for (int n : new int[] {5, 32, 97, 1100}) {
            for (int k : new int[] {type.blockElements(), 1280}) {
                float[] decoded = new float[n * k];
                ByteBuffer file = weights(type, n, k, decoded);
                ByteBuffer plain = ByteBuffer.allocateDirect(4 * n * k).order(ByteOrder.LITTLE_ENDIAN);
                plain.asFloatBuffer().put(decoded);
                float[] x = numbers(new Random(5), 19 * n);
                float[] wanted = back(DType.F32, plain, n, k, x, 19, 1);
                float[] ours = back(type, file, n, k, x, 19, 2);
                if (same) {
                    assertThat(ours).as("%s n %d k %d", type, n, k).isEqualTo(wanted);
                }
                for (int i = 0; i < ours.length; i++) {
                    double size = 0;
                    for (int row = 0; row < n; row++) {
                        size += Math.abs(x[i / k * n + row] * decoded[row * k + i % k]);
                    }
                    assertThat(Math.abs(ours[i] - wanted[i]))
                            .as("%s n %d k %d element %d", type, n, k, i)
                            .isLessThanOrEqualTo((float) (4e-6 * size));
                }
            }
        }
    }

    private static float[] back(DType type, ByteBuffer file, int n, int k, float[] x, int m, int threads) {
        try (Device device = device(threads);
                Scope scope = new Scope(device)) {
            EagerOps ops = device.ops(scope, Precision.FLOAT32, Fallback.FORBIDDEN);
            Tensor w = scope.allocate(new Spec(type, Shape.of(n, k)));
            device.write(w, file.duplicate());
            Tensor a = scope.allocate(Spec.f32(m, n));
            device.write(a, x);
            return device.floats(ops.run(new Plain.MatMul(false, false), a, w));
        }
    }

    /** Codes are summed as whole numbers, and floats in one order: no width of vectors shows. */
    @Test
    void narrowVectorsEqualWideOnes() throws IOException, InterruptedException {
        for (int bytes : new int[] {16, 32}) {
            Process process = new ProcessBuilder(
                            Path.of(System.getProperty("java.home"), "bin", "java")
                                    .toString(),
                            "-XX:MaxVectorSize=" + bytes,
                            "--add-modules",
                            "jdk.incubator.vector",
                            "-cp",
                            System.getProperty("java.class.path"),
                            PanelMatMulTest.class.getName())
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(process.waitFor()).isZero();
            assertThat(said.strip()).isEqualTo(digest());
        }
    }

    public static void main(String[] args) {
        System.out.println(digest());
    }

    /** The bits of some products of every type, rounded and exact. */
    private static String digest() {
        StringBuilder digest = new StringBuilder();
        Set<String> vectors = DeviceOptions.NO_MACHINE_CODE;
        for (DType type : DType.values()) {
            if (type.isQuantized()) {
                int k = 3 * type.blockElements();
                ByteBuffer file = weights(type, 97, k, new float[97 * k]);
                float[] x = numbers(new Random(3), 13 * k);
                digest.append(type)
                        .append(Arrays.hashCode(run(vectors, type, file, 97, k, x, 13, false, 1)))
                        .append(Arrays.hashCode(run(vectors, type, file, 97, k, x, 1, false, 1)))
                        .append(Arrays.hashCode(run(vectors, type, file, 97, k, x, 13, true, 1)))
                        .append(Arrays.hashCode(run(vectors, type, file, 97, k, x, 1, true, 1)));
            }
        }
        return digest.toString();
    }

    private static void products(DType type, boolean exact) {
        for (int n : ROWS) {
            for (int blocks : BLOCKS) {
                int k = blocks * type.blockElements();
                float[] decoded = new float[n * k];
                ByteBuffer file = weights(type, n, k, decoded);
                float[] x = numbers(new Random(7), 150 * k);
                products(BEST, type, file, decoded, x, n, k, TOKENS, exact);
                for (Set<String> hidden : n > 64 && PanelFormat.has(type, !exact) ? OTHERS : List.<Set<String>>of()) {
                    products(hidden, type, file, decoded, x, n, k, FEWER_TOKENS, exact);
                }
            }
        }
    }

    private static void products(
            Set<String> hidden,
            DType type,
            ByteBuffer file,
            float[] decoded,
            float[] x,
            int n,
            int k,
            int[] tokens,
            boolean exact) {
        float[] alone = run(hidden, type, file, n, k, x, 1, exact, 1);
        for (int m : tokens) {
            float[] y = run(hidden, type, file, n, k, x, m, exact, 2);
            check(type, x, decoded, y, m, n, k, exact);
            assertThat(Arrays.copyOf(y, n)).as("a row alone and among %d", m).isEqualTo(alone);
        }
    }

    private static void check(DType type, float[] x, float[] w, float[] y, int m, int n, int k, boolean exact) {
        for (int t = 0; t < m; t++) {
            for (int row = 0; row < n; row++) {
                double sum = 0;
                double size = 0;
                double lost = 0;
                for (int g = 0; g < k; g += 32) {
                    double largest = 0;
                    double weight = 0;
                    for (int i = g; i < Math.min(k, g + 32); i++) {
                        sum += (double) x[t * k + i] * w[row * k + i];
                        size += Math.abs((double) x[t * k + i] * w[row * k + i]);
                        largest = Math.max(largest, Math.abs(x[t * k + i]));
                        weight += Math.abs(w[row * k + i]);
                    }
                    lost += largest / 254 * weight;
                }
                double bound = 4e-6 * size + (exact ? 0 : lost) + 1e-30;
                assertThat(Math.abs(y[t * n + row] - sum))
                        .as("%s m %d n %d k %d token %d row %d", type, m, n, k, t, row)
                        .isLessThanOrEqualTo(bound);
            }
        }
    }

    private static float[] run(
            DType type, ByteBuffer file, int n, int k, float[] x, int m, boolean exact, int threads) {
        return run(BEST, type, file, n, k, x, m, exact, threads);
    }

    private static float[] run(
            Set<String> hidden,
            DType type,
            ByteBuffer file,
            int n,
            int k,
            float[] x,
            int m,
            boolean exact,
            int threads) {
        try (Device device = device(threads, hidden);
                Scope scope = new Scope(device)) {
            EagerOps ops = device.ops(scope, Precision.FLOAT32, Fallback.FORBIDDEN);
            Tensor w = scope.allocate(new Spec(type, Shape.of(n, k)));
            device.write(w, file.duplicate());
            Tensor a = scope.allocate(Spec.f32(m, k));
            device.write(a, Arrays.copyOf(x, m * k));
            return device.floats(ops.run(new Plain.MatMul(false, true, DType.F32, !exact), a, w));
        }
    }

    private static ByteBuffer weights(DType type, int n, int k, float[] decoded) {
        float[] values = numbers(new Random(n * 31L + k), n * k);
        ByteBuffer file = ByteBuffer.allocateDirect((int) new Spec(type, Shape.of(n, k)).bytes());
        MatrixCodec.of(type).encode(values, n, k, file);
        System.arraycopy(MatrixCodec.of(type).decode(file, n, k), 0, decoded, 0, n * k);
        return file;
    }

    private static float[] numbers(Random random, int count) {
        float[] numbers = new float[count];
        for (int i = 0; i < count; i++) {
            numbers[i] = (float) random.nextGaussian();
        }
        return numbers;
    }

    private static Device device(int threads) {
        return device(threads, BEST);
    }

    private static Device device(int threads, Set<String> hidden) {
        return new CpuBackend().open(new DeviceOptions(0, threads, Path.of("unused"), hidden));
    }
}
