package dev.starforge.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The same bits whatever the threads, the batch around a row, or the queries around a query. */
final class RepeatableTest {
    private final SplittableRandom random = new SplittableRandom(7);
    private final Device one = open(1);
    private final Device two = open(2);
    private final Scope scopeOfOne = new Scope(one);
    private final Scope scopeOfTwo = new Scope(two);

    private static Device open(int threads) {
        return new CpuBackend().open(new DeviceOptions(0, threads, Path.of("unused")));
    }

    @AfterEach
    void close() {
        scopeOfOne.close();
        scopeOfTwo.close();
        one.close();
        two.close();
    }

    private float[] random(int size) {
        float[] values = new float[size];
        for (int i = 0; i < size; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    private static Tensor tensor(Scope scope, float[] values, long... dims) {
        Tensor tensor = scope.allocate(Spec.f32(dims));
        scope.device().write(tensor, values);
        return tensor;
    }

    private static Tensor tensor(Scope scope, int[] values, long... dims) {
        Tensor tensor = scope.allocate(Spec.i32(dims));
        scope.device().write(tensor, values);
        return tensor;
    }

    private static float[] run(Scope scope, Op op, Tensor... in) {
        Tensor[] out = Arrays.stream(
                        op.outputs(Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new)))
                .map(scope::allocate)
                .toArray(Tensor[]::new);
        Device.of(scope).run(op, in, out);
        return scope.device().floats(out[0]);
    }

    @ParameterizedTest
    @CsvSource({"false, false", "false, true", "true, false", "true, true"})
    void matMulsDoNotDependOnThreads(boolean transposeA, boolean transposeB) {
        int m = 130;
        int n = 261;
        int k = 530;
        float[] a = random(m * k);
        float[] b = random(k * n);
        Op op = new Plain.MatMul(transposeA, transposeB);
        long[] shapeA = transposeA ? new long[] {k, m} : new long[] {m, k};
        long[] shapeB = transposeB ? new long[] {n, k} : new long[] {k, n};
        assertThat(run(scopeOfTwo, op, tensor(scopeOfTwo, a, shapeA), tensor(scopeOfTwo, b, shapeB)))
                .isEqualTo(run(scopeOfOne, op, tensor(scopeOfOne, a, shapeA), tensor(scopeOfOne, b, shapeB)));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 13, 16, 512, 576, 1031})
    void aRowHasTheSameBitsAloneAndInABatch(int k) {
        int m = 48;
        int n = 131;
        float[] a = random(m * k);
        float[] b = random(n * k);
        Op op = new Plain.MatMul(false, true);
        float[] batch = run(scopeOfTwo, op, tensor(scopeOfTwo, a, m, k), tensor(scopeOfTwo, b, n, k));
        for (int rows : new int[] {1, 7, 9}) {
            float[] some = Arrays.copyOfRange(a, (m - rows) * k, m * k);
            assertThat(run(scopeOfTwo, op, tensor(scopeOfTwo, some, rows, k), tensor(scopeOfTwo, b, n, k)))
                    .as("%d rows", rows)
                    .isEqualTo(Arrays.copyOfRange(batch, (m - rows) * n, m * n));
        }
    }

    /** Weights of floats, by AVX-512, AVX2 and the Vector API, with one thread and two, alone and among 64: short rows and long ones. */
    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"F32", "F16", "BF16"})
    void floatWeightsHaveTheSameBitsInEveryImplementation(DType type) {
        for (int k : new int[] {512, 1024, 4624, 5003}) {
            int n = 85;
            int m = 64;
            float[] x = random(m * k);
            float[] w = random(n * k);
            float[] expected = product(1, DeviceOptions.NO_MACHINE_CODE, x, m, type, w, n, k);
            for (Set<String> hidden : List.of(Set.<String>of(), Set.of("avx512_vnni"), DeviceOptions.NO_MACHINE_CODE)) {
                assertThat(product(2, hidden, x, m, type, w, n, k))
                        .as("%d, without %s", k, hidden)
                        .isEqualTo(expected);
                assertThat(product(2, hidden, Arrays.copyOfRange(x, 63 * k, m * k), 1, type, w, n, k))
                        .as("%d alone, without %s", k, hidden)
                        .isEqualTo(Arrays.copyOfRange(expected, 63 * n, m * n));
            }
        }
    }

    private static float[] product(
            int threads, Set<String> hidden, float[] x, int m, DType type, float[] w, int n, int k) {
        try (Device device = new CpuBackend().open(new DeviceOptions(0, threads, Path.of("unused"), hidden));
                Scope scope = new Scope(device)) {
            Tensor wide = tensor(scope, w, n, k);
            Tensor weight = scope.allocate(new Spec(type, wide.shape()));
            device.run(new Plain.Cast(type), new Tensor[] {wide}, new Tensor[] {weight});
            return run(scope, new Plain.MatMul(false, true), tensor(scope, x, m, k), weight);
        }
    }

    /** Both factors in bf16, with an instruction for pairs and without: alone, among 64, either layout, one thread and two, near the exact sum. */
    @ParameterizedTest
    @ValueSource(ints = {2, 30, 64, 1056, 1301})
    void bf16MatMulsHaveTheSameBitsAloneAndInABatch(int k) {
        int m = 64;
        int n = 85;
        float[] a = random(m * k);
        float[] b = random(n * k);
        Op op = new Plain.MatMul(false, true);
        float[] batch = run(scopeOfTwo, op, bf16(scopeOfTwo, a, m, k), bf16(scopeOfTwo, b, n, k));
        assertThat(run(scopeOfOne, op, bf16(scopeOfOne, a, m, k), bf16(scopeOfOne, b, n, k)))
                .isEqualTo(batch);
        for (int rows : new int[] {1, 7, 9}) {
            float[] some = Arrays.copyOfRange(a, (m - rows) * k, m * k);
            assertThat(run(scopeOfTwo, op, bf16(scopeOfTwo, some, rows, k), bf16(scopeOfTwo, b, n, k)))
                    .as("%d rows", rows)
                    .isEqualTo(Arrays.copyOfRange(batch, (m - rows) * n, m * n));
        }
        Op turned = new Plain.MatMul(true, false);
        assertThat(run(
                        scopeOfTwo,
                        turned,
                        bf16(scopeOfTwo, turn(a, m, k), k, m),
                        bf16(scopeOfTwo, turn(b, n, k), k, n)))
                .isEqualTo(batch);
        for (int i = 0; i < m * n; i++) {
            double sum = 0;
            double size = 0;
            for (int j = 0; j < k; j++) {
                double term = (double) rounded(a[i / n * k + j]) * rounded(b[i % n * k + j]);
                sum += term;
                size += Math.abs(term);
            }
            assertThat(Math.abs(batch[i] - sum)).isLessThanOrEqualTo(2e-6 * size);
        }
    }

    private static float rounded(float x) {
        return DType.BF16.widen(DType.BF16.narrow(x));
    }

    private static Tensor bf16(Scope scope, float[] values, long... dims) {
        return narrow(scope, DType.BF16, values, dims);
    }

    @Test
    void matMulsDoNotDependOnTheLayout() {
        int m = 23;
        int n = 40;
        int k = 700;
        float[] a = random(m * k);
        float[] b = random(n * k);
        float[] turnedA = turn(a, m, k);
        float[] turnedB = turn(b, n, k);
        float[] expected = run(
                scopeOfOne, new Plain.MatMul(false, true), tensor(scopeOfOne, a, m, k), tensor(scopeOfOne, b, n, k));
        assertThat(run(
                        scopeOfOne,
                        new Plain.MatMul(false, false),
                        tensor(scopeOfOne, a, m, k),
                        tensor(scopeOfOne, turnedB, k, n)))
                .isEqualTo(expected);
        assertThat(run(
                        scopeOfOne,
                        new Plain.MatMul(true, false),
                        tensor(scopeOfOne, turnedA, k, m),
                        tensor(scopeOfOne, turnedB, k, n)))
                .isEqualTo(expected);
        assertThat(run(
                        scopeOfOne,
                        new Plain.MatMul(true, true),
                        tensor(scopeOfOne, turnedA, k, m),
                        tensor(scopeOfOne, b, n, k)))
                .isEqualTo(expected);
    }

    private static float[] turn(float[] x, int rows, int columns) {
        float[] turned = new float[x.length];
        for (int i = 0; i < rows; i++) {
            for (int j = 0; j < columns; j++) {
                turned[j * rows + i] = x[i * columns + j];
            }
        }
        return turned;
    }

    /** 150 tokens at once, then the last one alone: over another block size and through other rows of the cache. */
    @ParameterizedTest
    @ValueSource(ints = {0, 20})
    void aQueryHasTheSameBitsAloneAndInAPrompt(int window) {
        int t = 150;
        int h = 6;
        int hk = 2;
        int d = 20;
        float[] q = random(t * h * d);
        float[] k = random(t * hk * d);
        float[] v = random(t * hk * d);
        int[] positions = new int[t];
        Arrays.setAll(positions, i -> i);
        float[] prompt = run(
                scopeOfTwo,
                new Fused.Attention(0.3f, window, 1),
                tensor(scopeOfTwo, q, t, h, d),
                tensor(scopeOfTwo, k, t, hk, d),
                tensor(scopeOfTwo, v, t, hk, d),
                tensor(scopeOfTwo, new int[] {0, t}, 2),
                tensor(scopeOfTwo, positions, t),
                tensor(scopeOfTwo, positions, 1, t));
        int block = 32;
        int[] table = {4, 0, 3, 1, 2};
        float[] alone = run(
                scopeOfTwo,
                new Fused.Attention(0.3f, window, block),
                tensor(scopeOfTwo, Arrays.copyOfRange(q, (t - 1) * h * d, t * h * d), 1, h, d),
                tensor(scopeOfTwo, paged(k, hk * d, table, block), 5 * block, hk, d),
                tensor(scopeOfTwo, paged(v, hk * d, table, block), 5 * block, hk, d),
                tensor(scopeOfTwo, new int[] {0, 1}, 2),
                tensor(scopeOfTwo, new int[] {t - 1}, 1),
                tensor(scopeOfTwo, table, 1, 5));
        assertThat(alone).isEqualTo(Arrays.copyOfRange(prompt, (t - 1) * h * d, t * h * d));
    }

    /**
     * Far along a sequence there are several stretches of keys: one after another in a prompt, shared among threads for one
     * token, and all heads of a stretch together where the table has room for many.
     */
    @ParameterizedTest
    @CsvSource({
        "1, 0, 1, 10, 64",
        "2, 0, 40, 10, 64",
        "2, 0, 200, 10, 64",
        "1, 700, 200, 10, 64",
        "2, 700, 40, 10, 64",
        "1, 0, 1, 8, 64",
        "2, 700, 40, 8, 128",
        "2, 0, 200, 8, 64"
    })
    void partsOfALongSequenceAreCombinedInAFixedOrder(int threads, int window, int width, int h, int d) {
        Scope scope = threads == 1 ? scopeOfOne : scopeOfTwo;
        int t = 1100;
        int asked = 70;
        int hk = 2;
        int block = 32;
        int blocks = (t + block - 1) / block;
        int half = blocks / 2;
        int[] table = new int[Math.max(blocks, width)];
        for (int i = 0; i < blocks; i++) {
            table[i] = i < half ? (i * 11 + 3) % half : i; // scattered, then one after another
        }
        int[] used = Arrays.copyOf(table, blocks);
        Tensor k = half(scope, finite(paged(random(t * hk * d), hk * d, used, block)), blocks * block, hk, d);
        Tensor v = half(scope, finite(paged(random(t * hk * d), hk * d, used, block)), blocks * block, hk, d);
        float[] q = random(asked * h * d);
        int[] positions = new int[asked];
        Arrays.setAll(positions, i -> t - asked + i);
        Op op = new Fused.Attention(0.3f, window, block);
        float[] prompt = run(
                scope,
                op,
                tensor(scope, q, asked, h, d),
                k,
                v,
                tensor(scope, new int[] {0, asked}, 2),
                tensor(scope, positions, asked),
                tensor(scope, table, 1, table.length));
        for (int n : new int[] {0, 33, asked - 1}) {
            float[] alone = run(
                    scope,
                    op,
                    tensor(scope, Arrays.copyOfRange(q, n * h * d, (n + 1) * h * d), 1, h, d),
                    k,
                    v,
                    tensor(scope, new int[] {0, 1}, 2),
                    tensor(scope, new int[] {positions[n]}, 1),
                    tensor(scope, table, 1, table.length));
            assertThat(alone).as("query %d", n).isEqualTo(Arrays.copyOfRange(prompt, n * h * d, (n + 1) * h * d));
        }
    }

    /** Values that float16 has no finite number for reach the sum as what they are. */
    @Test
    void infinityInTheCacheStaysInfinity() {
        int d = 64;
        float[] values = random(3 * d);
        values[d + 5] = Float.POSITIVE_INFINITY;
        values[2 * d + 9] = Float.NaN;
        float[] y = run(
                scopeOfOne,
                new Fused.Attention(0.3f, 0, 1),
                tensor(scopeOfOne, random(d), 1, 1, d),
                half(scopeOfOne, random(3 * d), 3, 1, d),
                half(scopeOfOne, values, 3, 1, d),
                tensor(scopeOfOne, new int[] {0, 1}, 2),
                tensor(scopeOfOne, new int[] {2}, 1),
                tensor(scopeOfOne, new int[] {0, 1, 2}, 1, 3));
        for (int i = 0; i < d; i++) {
            if (i == 5) {
                assertThat(y[i]).isEqualTo(Float.POSITIVE_INFINITY);
            } else if (i == 9) {
                assertThat(y[i]).isNaN();
            } else {
                assertThat(y[i]).isFinite();
            }
        }
    }

    /** Four queries that share a key are computed from float16 as it lies there, one is not. */
    @ParameterizedTest
    @ValueSource(strings = {"normal", "subnormal", "infinite value", "NaN key", "large query"})
    void fourQueriesHaveTheBitsOfEachAlone(String kind) {
        int d = 64;
        int t = 100;
        float[] q = random(4 * d);
        float[] k = random(t * d);
        float[] v = random(t * d);
        switch (kind) {
            case "subnormal" -> {
                for (int i = 0; i < t * d; i += 3) {
                    k[i] *= 0x1p-20f;
                    v[i] *= 0x1p-20f;
                }
            }
            case "infinite value" -> v[70 * d + 5] = Float.NEGATIVE_INFINITY;
            case "NaN key" -> k[70 * d + 5] = Float.NaN;
            case "large query" -> q[3 * d + 7] = 1e30f;
            default -> {}
        }
        float[] together = lastOf(q, 4, k, v);
        for (int head = 0; head < 4; head++) {
            float[] alone = lastOf(Arrays.copyOfRange(q, head * d, (head + 1) * d), 1, k, v);
            assertThat(Arrays.copyOfRange(together, head * d, (head + 1) * d))
                    .as("head %d", head)
                    .isEqualTo(alone);
        }
    }

    /** The last of as many tokens as there are keys, with one head of keys and values. */
    private float[] lastOf(float[] q, int heads, float[] k, float[] v) {
        int d = q.length / heads;
        int t = k.length / d;
        int[] table = new int[t];
        Arrays.setAll(table, i -> i);
        return run(
                scopeOfOne,
                new Fused.Attention(0.3f, 0, 1),
                tensor(scopeOfOne, q, 1, heads, d),
                half(scopeOfOne, k, t, 1, d),
                half(scopeOfOne, v, t, 1, d),
                tensor(scopeOfOne, new int[] {0, 1}, 2),
                tensor(scopeOfOne, new int[] {t - 1}, 1),
                tensor(scopeOfOne, table, 1, t));
    }

    private static Tensor half(Scope scope, float[] values, long... dims) {
        return narrow(scope, DType.F16, values, dims);
    }

    private static Tensor narrow(Scope scope, DType type, float[] values, long... dims) {
        Tensor wide = tensor(scope, values, dims);
        Tensor narrow = scope.allocate(new Spec(type, Shape.of(dims)));
        Device.of(scope).run(new Plain.Cast(type), new Tensor[] {wide}, new Tensor[] {narrow});
        return narrow;
    }

    private static float[] finite(float[] values) {
        for (int i = 0; i < values.length; i++) {
            values[i] = Float.isNaN(values[i]) ? 0 : values[i];
        }
        return values;
    }

    private static float[] paged(float[] x, int width, int[] table, int block) {
        float[] cache = new float[table.length * block * width];
        Arrays.fill(cache, Float.NaN);
        for (int i = 0; i < x.length / width; i++) {
            System.arraycopy(x, i * width, cache, (table[i / block] * block + i % block) * width, width);
        }
        return cache;
    }

    /** Every 16-bit pattern. */
    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"F16", "BF16"})
    void wideningIsExact(DType type) {
        int n = 1 << 16;
        Tensor x = scopeOfOne.allocate(new Spec(type, Shape.of(n)));
        ByteBuffer bytes = ByteBuffer.allocateDirect(2 * n).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < n; i++) {
            bytes.putShort(2 * i, (short) i);
        }
        one.write(x, bytes);
        float[] wide = run(scopeOfOne, new Plain.Cast(DType.F32), x);
        for (int i = 0; i < n; i++) {
            int expected = Float.floatToIntBits(type.widen((short) i));
            assertThat(Float.floatToIntBits(wide[i])).as("pattern %x", i).isEqualTo(expected);
        }
    }
}
