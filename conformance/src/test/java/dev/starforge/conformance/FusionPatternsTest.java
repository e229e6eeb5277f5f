package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The result of a row does not depend on the other rows of the batch, bit for bit. Therefore a request gets the same answer at any load,
 * and decoding with a cache matches decoding without one.
 */
@Tag("widths")
final class FusionPatternsTest {
    private final Device cpu = Selection.choose("cpu").backend().open(new DeviceOptions(0, 2, Path.of("")));

    @AfterEach
    void close() {
        cpu.close();
    }

    private static HostTensor drawn(int site, DType type, long... dims) {
        return HostTensor.of(new Spec(type, Shape.of(dims)), i -> Case.bell(1, site, i));
    }

    private static HostTensor rows(HostTensor of, int from, int to) {
        int width = of.size() / (int) of.shape().dim(0);
        return of.slice(from * width, new Spec(of.spec().dtype(), of.shape().withFirst(to - from)));
    }

    /** Runs {@code op} on all rows of the first input, and on stretches of them, with the other inputs as they are. */
    private void alone(Op op, HostTensor... in) {
        int n = (int) in[0].shape().dim(0);
        HostTensor all = OpRunner.plain(cpu, op, in)[0];
        for (int count : new int[] {1, 2, 3, 5, 13, 50}) {
            for (int from : new int[] {0, n / 2, n - count}) {
                HostTensor[] some = in.clone();
                some[0] = rows(in[0], from, from + count);
                assertThat(OpRunner.plain(cpu, op, some)[0].firstDifference(rows(all, from, from + count)))
                        .as("%s of rows %d..%d of %d: first different element", op, from, from + count, n)
                        .isEqualTo(-1);
            }
        }
    }

    @Test
    void products() {
        for (DType type : new DType[] {DType.F32, DType.F16, DType.BF16}) {
            for (int k : new int[] {7, 130, 1030}) {
                alone(new Plain.MatMul(false, true), drawn(1, DType.F32, 131, k), drawn(2, type, 67, k));
                alone(new Plain.MatMul(false, false), drawn(1, DType.F32, 131, k), drawn(2, type, k, 67));
            }
        }
    }

    /** Weights whose scales lie apart from their quants; a panel and a part of one. */
    @Test
    void productsWithPlanes() {
        for (DType type : DType.values()) {
            if (type.isPlanar()) {
                alone(new Plain.MatMul(false, true), drawn(1, DType.F32, 131, 640), drawn(2, type, 37, 640));
                alone(new Plain.MatMul(false, false), drawn(1, DType.F32, 131, 37), drawn(2, type, 37, 640));
            }
        }
    }

    /** Rows that share an expert, some of them in the same product, against each row's own product with its matrix. */
    @Test
    void experts() {
        int[] offsets = {0, 0, 1, 10, 10, 131};
        HostTensor starts = HostTensor.of(Spec.i32(offsets.length), i -> offsets[i]);
        for (DType type : new DType[] {DType.F32, DType.F16, DType.BF16}) {
            for (boolean transposed : new boolean[] {false, true}) {
                HostTensor x = drawn(1, DType.F32, 131, 530);
                HostTensor w = transposed ? drawn(2, type, 5, 67, 530) : drawn(2, type, 5, 530, 67);
                Op op = new Routing.ExpertMatMul(transposed);
                HostTensor all = OpRunner.plain(cpu, op, x, w, starts)[0];
                for (int e = 0; e + 1 < offsets.length; e++) {
                    HostTensor own = w.slice(
                            e * 530 * 67,
                            new Spec(type, Shape.of(w.shape().dim(1), w.shape().dim(2))));
                    for (int row = offsets[e]; row < offsets[e + 1]; row++) {
                        HostTensor one =
                                OpRunner.plain(cpu, new Plain.MatMul(false, transposed), rows(x, row, row + 1), own)[0];
                        assertThat(one.firstDifference(rows(all, row, row + 1)))
                                .as("%s of row %d, expert %d, %s: first different element", op, row, e, type)
                                .isEqualTo(-1);
                    }
                }
            }
        }
    }

    /** The gradient of an expert's matrix is a function of its own rows. */
    @Test
    void gradientsOfExperts() {
        int[] offsets = {0, 3, 3, 131};
        HostTensor a = drawn(1, DType.F32, 131, 67);
        HostTensor b = drawn(2, DType.F32, 131, 70);
        HostTensor all =
                OpRunner.plain(cpu, new Routing.ExpertOuter(), a, b, HostTensor.of(Spec.i32(4), i -> offsets[i]))[0];
        for (int e = 0; e < 3; e++) {
            HostTensor own = OpRunner.plain(
                    cpu,
                    new Plain.MatMul(true, false),
                    rows(a, offsets[e], offsets[e + 1]),
                    rows(b, offsets[e], offsets[e + 1]))[0];
            assertThat(own.firstDifference(rows(all, e, e + 1)))
                    .as("expert %d: first different element", e)
                    .isEqualTo(-1);
        }
    }

    /** A row alone, and among 131 with other adapters and none. */
    @Test
    void adapters() {
        for (DType type : new DType[] {DType.F32, DType.BF16}) {
            for (int rank : new int[] {1, 4, 19}) {
                HostTensor[] in = {
                    drawn(1, type, 131, 300),
                    drawn(2, type, 131, 2100),
                    drawn(3, DType.F32, 5, rank, 2100),
                    drawn(4, DType.F32, 5, 300, rank),
                    drawn(5, DType.F32, 5),
                    HostTensor.of(Spec.i32(131), i -> i * i % 7 - 2)
                };
                Op op = new Adapters.Lora();
                HostTensor all = OpRunner.plain(cpu, op, in)[0];
                for (int row = 0; row < 131; row++) {
                    HostTensor[] one = in.clone();
                    for (int i : new int[] {0, 1, 5}) {
                        one[i] = rows(in[i], row, row + 1);
                    }
                    HostTensor alone = OpRunner.plain(cpu, op, one)[0];
                    assertThat(alone.firstDifference(rows(all, row, row + 1)))
                            .as("row %d of rank %d: first different element", row, rank)
                            .isEqualTo(-1);
                    assertThat(alone.firstDifference(one[0]) < 0)
                            .as("row %d is of the base, and has its bits", row)
                            .isEqualTo(in[5].at(row) < 0);
                }
            }
        }
    }

    /** Rows sorted by expert, against each one with its expert's own table. */
    @Test
    void adaptersOfExperts() {
        int[] offsets = {0, 0, 1, 40, 131};
        HostTensor tokens = HostTensor.of(Spec.i32(131), i -> 3 * i % 29);
        HostTensor index = HostTensor.of(Spec.i32(29), i -> i % 4 - 1);
        HostTensor y = drawn(1, DType.F32, 131, 67);
        HostTensor x = drawn(2, DType.F32, 131, 130);
        HostTensor a = drawn(3, DType.F32, 4, 3, 5, 130);
        HostTensor b = drawn(4, DType.F32, 4, 3, 67, 5);
        HostTensor scales = drawn(5, DType.F32, 3);
        HostTensor starts = HostTensor.of(Spec.i32(offsets.length), i -> offsets[i]);
        HostTensor all = OpRunner.plain(cpu, new Adapters.ExpertLora(), y, x, a, b, scales, index, tokens, starts)[0];
        for (int e = 0; e + 1 < offsets.length; e++) {
            for (int row = offsets[e]; row < offsets[e + 1]; row++) {
                double adapter = index.at((int) tokens.at(row));
                HostTensor one = OpRunner.plain(
                        cpu,
                        new Adapters.Lora(),
                        rows(y, row, row + 1),
                        rows(x, row, row + 1),
                        a.slice(e * 3 * 5 * 130, Spec.f32(3, 5, 130)),
                        b.slice(e * 3 * 67 * 5, Spec.f32(3, 67, 5)),
                        scales,
                        HostTensor.of(Spec.i32(1), i -> adapter))[0];
                assertThat(one.firstDifference(rows(all, row, row + 1)))
                        .as("row %d of expert %d: first different element", row, e)
                        .isEqualTo(-1);
            }
        }
    }

    /** Whatever y holds: -0 and NaN, too. By the expansion all that is finite. */
    @Test
    void rowsWithoutAdapterAreBitwiseUnchanged() {
        Op op = new Adapters.Lora();
        for (DType type : new DType[] {DType.F32, DType.F16, DType.BF16}) {
            HostTensor[] in = {
                HostTensor.of(new Spec(type, Shape.of(3, 130)), i -> i % 3 == 0 ? -0.0 : Case.bell(1, 1, i)),
                drawn(2, type, 3, 67),
                drawn(3, DType.F32, 2, 4, 67),
                drawn(4, DType.F32, 2, 130, 4),
                drawn(5, DType.F32, 2),
                HostTensor.of(Spec.i32(3), i -> -1 - i)
            };
            assertThat(OpRunner.plain(cpu, op, in)[0].firstDifference(in[0])).isEqualTo(-1);
            assertThat(OpRunner.eager(cpu, Fallback.without(Adapters.Lora.class), op, in)[0].firstDifference(in[0]))
                    .isEqualTo(-1);
            in[0] = HostTensor.of(new Spec(type, Shape.of(3, 130)), i -> i % 2 == 0 ? Double.NaN : -0.0);
            assertThat(OpRunner.plain(cpu, op, in)[0].firstDifference(in[0])).isEqualTo(-1);
        }
    }

    @Test
    void normsAndSoftmax() {
        HostTensor x = drawn(1, DType.F32, 131, 130);
        HostTensor w = drawn(2, DType.F32, 130);
        alone(new Fused.LayerNorm(1e-5f), x, w, w);
        alone(new Fused.RmsNorm(1e-5f), x, w);
        alone(new Plain.Softmax(), x);
        alone(new Plain.LogSumExp(), x);
    }

    /** The same cached sequence as the only one, and between a prompt and another decoding one. */
    @Test
    void attention() {
        int[][] sequences = {{7, 0}, {1, 130}, {13, 67}};
        HostTensor[] in = inputs(RaggedBatch.of(16, 0, sequences), 4, 2, 64, DType.F32);
        Op op = new Fused.Attention(0.125f, 0, 16);
        HostTensor together = OpRunner.plain(cpu, op, in)[0];
        int first = 0;
        for (int s = 0; s < sequences.length; s++) {
            int count = sequences[s][0];
            int width = (int) in[5].shape().last();
            HostTensor[] one = in.clone();
            one[0] = rows(in[0], first, first + count);
            one[3] = HostTensor.of(Spec.i32(2), i -> i * count);
            one[4] = rows(in[4], first, first + count);
            one[5] = in[5].slice(s * width, Spec.i32(1, width));
            assertThat(OpRunner.plain(cpu, op, one)[0].firstDifference(rows(together, first, first + count)))
                    .as("sequence %d: first different element", s)
                    .isEqualTo(-1);
            first += count;
        }
    }

    /** A prompt in one go, and its last token with the others cached. */
    @ParameterizedTest
    @CsvSource({"F32, 2, 64", "F16, 1, 64", "F16, 1, 128", "BF16, 1, 64"})
    void cachedAttention(DType cache, int kvHeads, int d) {
        Op op = new Fused.Attention(0.125f, 0, 16);
        HostTensor[] in = inputs(RaggedBatch.of(16, 0, new int[] {67, 0}), 4, kvHeads, d, cache);
        HostTensor whole = OpRunner.plain(cpu, op, in)[0];
        for (int n : new int[] {0, 1, 15, 16, 33, 66}) {
            HostTensor[] one = in.clone();
            one[0] = rows(in[0], n, n + 1);
            one[3] = HostTensor.of(Spec.i32(2), i -> i);
            one[4] = rows(in[4], n, n + 1);
            assertThat(OpRunner.plain(cpu, op, one)[0].firstDifference(rows(whole, n, n + 1)))
                    .as("token %d: first different element", n)
                    .isEqualTo(-1);
        }
    }

    private HostTensor[] inputs(RaggedBatch ragged, int heads, int kvHeads, int d, DType cache) {
        HostTensor[] layout = new Case(
                        new Plain.Mask(0, 16),
                        Arrays.asList(
                                new Case.Input(
                                        Spec.f32(1, ragged.queries(), ragged.keys()),
                                        new Case.Source.Drawn((i, n) -> n),
                                        false),
                                ragged.layout().get(0),
                                ragged.layout().get(1),
                                ragged.layout().get(2)),
                        "")
                .values(cpu);
        HostTensor q = drawn(1, DType.F32, ragged.queries(), heads, d);
        HostTensor k = drawn(2, cache, ragged.rows(), kvHeads, d);
        HostTensor v = drawn(3, cache, ragged.rows(), kvHeads, d);
        return new HostTensor[] {q, k, v, layout[1], layout[2], layout[3]};
    }
}
