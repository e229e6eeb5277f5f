package dev.starforge.conformance;

import dev.starforge.conformance.Case.Draw;
import dev.starforge.conformance.Case.Input;
import dev.starforge.conformance.Case.Source;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import dev.starforge.tensor.op.Training;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * The cases that every backend must pass. Sizes are awkward on purpose: 5, 7, 11 and 13 are shorter than a vector, 130 is two more
 * than a power of two, and 0 occurs, too. A few shapes are large enough to be split among threads. A test fails if an operation has
 * no case.
 */
final class Cases {
    static final Draw NORMAL = (i, normal) -> normal;
    private static final Draw POSITIVE = (i, normal) -> 0.5 + Math.abs(normal);
    private static final Draw NOT_ZERO = (i, normal) -> Math.copySign(0.5, normal) + normal;
    private static final int IGNORED = -100;

    private final List<Case> cases = new ArrayList<>();

    private Cases() {
        elementwise();
        products();
        rows();
        reductions();
        experts();
        cases.addAll(SampleCases.all());
        optimizer();
        noise();
        norms();
        positions();
        gates();
        losses();
        attention();
        storeInt8();
        adapters();
        cases.addAll(LayerCases.all());
        for (DType type : List.of(DType.F16, DType.BF16)) {
            mixed(type);
        }
        for (DType type : DType.values()) {
            if (type.isQuantized()) {
                quantized(type);
                tiled(type);
            }
        }
    }

    static List<Case> all() {
        List<Case> all = new ArrayList<>(new Cases().cases);
        for (DType type : List.of(DType.F16, DType.BF16)) {
            new Cases().cases.forEach(c -> TypedCases.in(type, c).ifPresent(all::add));
        }
        return List.copyOf(all);
    }

    private void add(String note, Op op, Input... inputs) {
        cases.add(new Case(op, List.of(inputs), note));
    }

    private void add(Op op, Input... inputs) {
        add("", op, inputs);
    }

    static Input drawn(Draw draw, DType type, long... dims) {
        return new Input(new Spec(type, Shape.of(dims)), new Source.Drawn(draw), false);
    }

    static Input x(long... dims) {
        return drawn(NORMAL, DType.F32, dims);
    }

    /** An input whose gradient is checked. */
    static Input g(long... dims) {
        return x(dims).wanted();
    }

    private static Input ids(Integer... ids) {
        return new Input(Spec.i32(ids.length), new Source.Listed(List.of(ids)), false);
    }

    /** {@code count} row numbers below {@code height}, with repetitions. */
    private static Input random(int count, int height) {
        return ids(IntStream.range(0, count)
                .map(i -> (int) (Philox.uniform(height, count, i) * height))
                .boxed()
                .toArray(Integer[]::new));
    }

    /** {@code count} different row numbers below {@code height}. */
    private static Input distinct(int count, int height) {
        return ids(
                IntStream.range(0, count).map(i -> (5 * i + 3) % height).boxed().toArray(Integer[]::new));
    }

    /** [n, k] numbers, given row by row. */
    private static Input choices(int k, Integer... numbers) {
        return new Input(Spec.i32(numbers.length / k, k), new Source.Listed(List.of(numbers)), false);
    }

    /** [n, k] numbers below {@code below}, with repetitions in a row. */
    private static Input randomChoices(int n, int k, int below) {
        return new Input(Spec.i32(n, k), random(n * k, below).source(), false);
    }

    private void elementwise() {
        for (Op op : List.of(new Plain.Add(), new Plain.Mul())) {
            add(op, g(5, 7), g(5, 7));
            add(op, g(11, 13), g(13));
            add(op, g(3, 5, 7), g(5, 7));
            add(op, g(7, 130), g(7, 1));
            add(op, g(13), g(1));
            add(op, x(130, 1030), x(1030));
            add(op, g(0, 5), g(5));
            add(op, g(5, 0), g(5, 1));
            add(op, x(), x());
        }
        add(new Plain.Affine(-1.5f, 0.25f), g(11, 13));
        add(new Plain.Affine(3, 0), g(130));
        add(new Plain.Affine(0, 2), x(7));
        add(new Plain.Affine(0.5f, 1), x(130, 517));
        add(new Plain.MapGrad(Fn.GELU_TANH), x(130, 517), x(130, 517));
        add(new Plain.Affine(3, 1), g(0));
        for (Fn fn : Fn.values()) {
            Draw draw = fn == Fn.RSQRT ? POSITIVE : fn == Fn.RECIPROCAL ? NOT_ZERO : NORMAL;
            add(new Plain.Map(fn), drawn(draw, DType.F32, 7, 13).wanted());
            add(new Plain.Map(fn), drawn(draw, DType.F32, 1, 1));
            if (fn == Fn.SILU
                    || fn == Fn.GELU_TANH) { // functions of layers: large tensors use kernels compiled for one function
                add(new Plain.Map(fn), drawn(draw, DType.F32, 130, 517));
            }
            add(new Plain.Map(fn), drawn(draw, DType.F32, 0));
            add(new Plain.MapGrad(fn), drawn(draw, DType.F32, 11, 13), x(11, 13));
            add(new Plain.MapGrad(fn), drawn(draw, DType.F32, 0, 3), x(0, 3));
        }
        extremes(Fn.EXP, -100, 88);
        extremes(Fn.RSQRT, 1e-24, 1e24);
        extremes(Fn.RECIPROCAL, 1e-18, 1e18);
        extremes(Fn.RECIPROCAL, -1e-18, -1e18);
        extremes(Fn.SIGMOID, -200, 200);
        extremes(Fn.SIN, -131_072, 131_072);
        extremes(Fn.COS, -131_072, 131_072);
        extremes(Fn.SILU, -200, 200);
        extremes(Fn.GELU_TANH, -200, 200);
        for (DType to : List.of(DType.F32, DType.F16, DType.BF16)) {
            add(new Plain.Cast(to), drawn((i, normal) -> normal * Math.exp(10 * normal), DType.F32, 13, 130));
            add(new Plain.Cast(to), ids(0, 1, -1, 65_504, 65_520, 16_777_217, -16_777_219, Integer.MAX_VALUE));
            add(new Plain.Cast(to), drawn(NORMAL, DType.F16, 5, 11));
            add(new Plain.Cast(to), drawn(NORMAL, DType.BF16, 130));
            add(new Plain.Cast(to), x(0, 7));
            add(new Plain.Cast(to), x(130, 517));
            float[] special = {
                0f,
                -0f,
                Float.POSITIVE_INFINITY,
                Float.NEGATIVE_INFINITY,
                1e38f,
                3.4e38f,
                1e-40f,
                65_504f,
                65_519.9f,
                65_520f,
                1.00390625f,
                1.01171875f,
                6e-8f,
                2.9e-8f
            };
            add("ties, infinities and subnormals", new Plain.Cast(to), drawn((i, n) -> special[i], DType.F32, 14));
        }
        add(new Plain.Cast(DType.F32), g(5, 7));
        add(new Plain.Fill(Spec.f32(7, 13), -2.5f));
        add(new Plain.Fill(Spec.f32(130), 0));
        add(new Plain.Fill(Spec.f32(0, 4), 1));
        add(new Plain.Fill(Spec.f32(), Float.NEGATIVE_INFINITY));
    }

    /** Inputs spread evenly over a wide range, densely around zero, or by powers if zero is a pole. */
    private void extremes(Fn fn, double from, double to) {
        Draw draw = (i, normal) -> fn == Fn.RSQRT || fn == Fn.RECIPROCAL
                ? from * Math.pow(to / from, i / 256.0)
                : i % 2 == 0 ? from + (to - from) * i / 256 : 6 * normal;
        String range = "from " + from + " to " + to;
        add(range, new Plain.Map(fn), drawn(draw, DType.F32, 257));
        add(range, new Plain.MapGrad(fn), drawn(draw, DType.F32, 257), x(257));
    }

    private void products() {
        for (boolean a : new boolean[] {false, true}) {
            for (boolean b : new boolean[] {false, true}) {
                Plain.MatMul op = new Plain.MatMul(a, b);
                for (long[] mnk : new long[][] {{5, 13, 7}, {11, 130, 5}, {130, 7, 130}, {1, 11, 13}, {13, 1, 1}}) {
                    add(op, g(pair(a, mnk[0], mnk[2])), g(pair(b, mnk[2], mnk[1])));
                }
                add(op, g(lead(3, pair(a, 5, 7))), g(lead(3, pair(b, 7, 11))));
                add(op, x(pair(a, 67, 258)), x(pair(b, 258, 131)));
                add(op, x(pair(a, 1, 517)), x(pair(b, 517, 259)));
                add(op, x(pair(a, 50, 1030)), x(pair(b, 1030, 300)));
                for (DType type : List.of(DType.F16, DType.BF16)) {
                    Input left = x(pair(a, 5, 130));
                    add(op, a ? left : left.wanted(), drawn(NORMAL, type, pair(b, 130, 13)));
                    add(op, x(pair(a, 33, 67)), drawn(NORMAL, type, pair(b, 67, 70)));
                    add(op, x(pair(a, 3, 1030)), drawn(NORMAL, type, pair(b, 1030, 130)));
                }
                add(op, g(pair(a, 0, 7)), g(pair(b, 7, 5)));
                add(op, g(pair(a, 5, 0)), g(pair(b, 0, 3)));
                add(op, g(pair(a, 5, 7)), g(pair(b, 7, 0)));
                add(op, x(lead(0, pair(a, 5, 7))), x(lead(0, pair(b, 7, 3))));
            }
        }
        add(new Plain.MatMul(false, true), x(2, 3, 5, 7), x(2, 3, 11, 7));
        add(
                "large terms that cancel",
                new Plain.MatMul(false, true),
                drawn((i, n) -> (i % 2 == 0 ? 1e4 : -1e4) + n, DType.F32, 7, 130),
                drawn((i, n) -> 1e4 + n, DType.F32, 5, 130));
    }

    /** 16-bit activations with inputs of other types: biases, residual streams, trained weights, statistics. */
    private void mixed(DType type) {
        DType other = type == DType.F16 ? DType.BF16 : DType.F16;
        for (Op op : List.of(new Plain.Add(), new Plain.Mul())) {
            add(op, drawn(NORMAL, type, 11, 13).wanted(), g(13));
            add(op, g(7, 130), drawn(NORMAL, type, 7, 130).wanted());
            add(op, drawn(NORMAL, type, 5, 7), g(5, 1));
        }
        add(new Plain.MatMul(false, true), drawn(NORMAL, type, 5, 130).wanted(), drawn(NORMAL, type, 13, 130));
        add(new Plain.MatMul(false, true, type), drawn(NORMAL, type, 2, 2048), drawn(NORMAL, type, 48, 2048));
        add(new Plain.MatMul(false, true, type), drawn(NORMAL, type, 7, 67).wanted(), g(13, 67));
        add(new Plain.MatMul(false, true, type), x(7, 67), drawn(NORMAL, other, 33, 67));
        add(new Plain.MatMul(true, false), drawn(NORMAL, type, 67, 5), drawn(NORMAL, type, 67, 11));
        add(
                new Plain.MatMul(false, true, type),
                drawn(NORMAL, type, 7, 64).wanted(),
                drawn(NORMAL, DType.Q8_0, 33, 64));
        add(new Plain.MatMul(false, false, type), drawn(NORMAL, type, 7, 33), drawn(NORMAL, DType.Q8_0, 33, 64));
        add(new Plain.ScatterAdd(13, DType.F32), drawn(NORMAL, type, 7, 5), ids(5, 0, 12, 5, 5, 1, 0));
        add(new Plain.Cast(type), g(7, 13));
        add(new Plain.Cast(DType.F32), drawn(NORMAL, type, 7, 13).wanted());
    }

    /** Weights that GPUs store in tiles of 16 rows: several tiles, few and many rows, more columns than eight simdgroups share. */
    private void tiled(DType type) {
        add(new Plain.MatMul(false, true), x(1, 1280), drawn(NORMAL, type, 48, 1280));
        add(new Plain.MatMul(false, true, DType.BF16), drawn(NORMAL, DType.BF16, 9, 768), drawn(NORMAL, type, 32, 768));
        add(
                new Plain.MatMul(false, true, DType.BF16),
                drawn(NORMAL, DType.BF16, 1, 2048),
                drawn(NORMAL, type, 48, 2048));
        add(
                new Plain.MatMul(false, true, DType.BF16),
                drawn(NORMAL, DType.BF16, 33, 512),
                drawn(NORMAL, type, 16, 512));
        add(new Plain.MatMul(false, true), x(67, 256), drawn(NORMAL, type, 16, 256));
        add(new Plain.Gather(), drawn(NORMAL, type, 48, 512), ids(5, 0, 47, 33, 31, 32, 5));
        add(new Plain.Cast(DType.F32), drawn(NORMAL, type, 2, 16, 256));
        if (type == DType.Q4_0) {
            add(new Plain.MatMul(false, true), x(3, 512), drawn(NORMAL, type, 48, 512));
            add(
                    new Plain.MatMul(false, true, DType.F16),
                    drawn(NORMAL, DType.F16, 9, 768),
                    drawn(NORMAL, type, 32, 768));
            add(
                    new Plain.MatMul(false, true, DType.BF16),
                    drawn(NORMAL, DType.BF16, 67, 256),
                    drawn(NORMAL, type, 16, 256));
            add(new Plain.MatMul(false, false), g(5, 48), drawn(NORMAL, type, 48, 512));
        }
    }

    /** Every operation that reads quantized weights, with one to three blocks per row and heights around the panel height of 32. */
    private void quantized(DType type) {
        int block = type.blockElements();
        for (int[] mnk : new int[][] {{1, 5, 1}, {2, 7, 2}, {7, 33, 3}, {13, 130, 1}, {48, 33, 2}, {1, 130, 3}}) {
            long k = (long) mnk[2] * block;
            Input w = drawn(NORMAL, type, mnk[1], k);
            add(new Plain.MatMul(false, true), g(mnk[0], k), w);
            add(new Plain.MatMul(false, false), g(mnk[0], mnk[1]), w);
        }
        for (boolean transposed : new boolean[] {false, true}) {
            Plain.MatMul op = new Plain.MatMul(false, transposed);
            add(op, g(lead(2, new long[] {5, transposed ? block : 33})), drawn(NORMAL, type, 2, 33, block));
            add(op, x(0, transposed ? block : 7), drawn(NORMAL, type, 7, block));
            add(op, x(3, transposed ? block : 0), drawn(NORMAL, type, 0, block));
            expertProduct(transposed, type, transposed ? 2L * block : 33, transposed ? 33 : 2L * block, 3, 0, 1);
            expertProduct(transposed, type, transposed ? block : 130, transposed ? 130 : block, 0, 13, 48, 2);
            expertProduct(transposed, type, transposed ? 3L * block : 7, transposed ? 7 : 3L * block, 0, 0);
        }
        add(
                "every other block of zeros",
                new Plain.MatMul(false, true),
                x(2, 2L * block),
                drawn((i, n) -> i / block % 2 == 0 ? 0 : n, type, 7, 2L * block));
        add(
                "scales far apart",
                new Plain.MatMul(false, true),
                x(2, 3L * block),
                drawn((i, n) -> n * Math.pow(10, i / 32 % 5 - 2), type, 33, 3L * block));
        add(new Plain.Gather(), drawn(NORMAL, type, 130, block), ids(5, 0, 129, 33, 31, 32, 5));
        add(new Plain.Gather(), drawn(NORMAL, type, 7, 3L * block), random(67, 7));
        add(new Plain.Gather(), drawn(NORMAL, type, 5, block), ids());
        add(new Plain.Cast(DType.F32), drawn(NORMAL, type, 33, 2L * block));
        add(new Plain.Cast(DType.F32), drawn(NORMAL, type, 2, 5, block));
        add(new Plain.Cast(DType.F32), drawn(NORMAL, type, 0, block));
    }

    /** Adjacent and separate rows with the same adapter, rows without an adapter, one adapter for all rows, and none. */
    private void adapters() {
        lora(7, 13, 3, 1, 0, -1, 2, 0, 2);
        lora(130, 5, 2, 4, 1, 1, 1, 1);
        lora(11, 130, 1, 2, -1, 0, 0, -1, 0, 0, 0);
        lora(13, 11, 4, 3, -1, -1, -2);
        lora(1, 1, 1, 1, 0);
        lora(67, 131, 5, 8, 3, 1, 4, 1, -4, 0, 0, 3, 3, 3, 1, 4, 0);
        lora(2100, 258, 3, 16, nCopies(70, 2));
        lora(
                258,
                1030,
                7,
                11,
                IntStream.range(0, 131).mapToObj(i -> i * i % 9 - 2).toArray(Integer[]::new));
        lora(5, 7, 2, 3);
        lora(0, 3, 2, 1, 0, 1);
        lora(3, 0, 2, 1, 0, 1);
        lora(3, 5, 2, 0, 0, -1);
        Draw freeIsNaN = (i, n) -> i / 35 % 3 == 1 ? Double.NaN : n; // rank * in and out * rank are both 35
        Input index = ids(2, -1, 0, 2);
        add(
                "unused second adapter",
                new Adapters.Lora(),
                drawn((i, n) -> -0.0, DType.F32, 4, 7),
                x(4, 7),
                drawn(freeIsNaN, DType.F32, 3, 5, 7),
                drawn(freeIsNaN, DType.F32, 3, 7, 5),
                x(3),
                index);
        expertLora(7, 13, 3, 1, new int[] {2, 0, 3}, 0, -1, 2, 0, 2);
        expertLora(130, 5, 2, 4, new int[] {0, 5}, 1, 1, 1, 1, 1);
        expertLora(67, 131, 4, 3, new int[] {1, 0, 9, 2}, 3, -1, 2);
        expertLora(11, 7, 2, 2, new int[] {3, 1}, -1, -1, -1);
        expertLora(5, 7, 2, 3, new int[] {0, 0});
        for (DType type : List.of(DType.F16, DType.BF16)) {
            for (DType y : List.of(type, DType.F32)) {
                add(
                        new Adapters.Lora(),
                        drawn(NORMAL, y, 5, 13),
                        drawn(NORMAL, type, 5, 67),
                        drawn(NORMAL, type, 3, 4, 67),
                        drawn(NORMAL, type, 3, 13, 4),
                        x(3),
                        ids(1, -1, 1, 0, 2));
            }
        }
    }

    private void lora(long in, long out, int adapters, int rank, Integer... index) {
        boolean small = index.length * (in + out) < 2000;
        add(
                "adapters " + numbers(index),
                new Adapters.Lora(),
                small ? g(index.length, out) : x(index.length, out),
                small ? g(index.length, in) : x(index.length, in),
                small ? g(adapters, rank, in) : x(adapters, rank, in),
                small ? g(adapters, out, rank) : x(adapters, out, rank),
                x(adapters),
                ids(index));
    }

    /** One expert per count of rows; tokens are assigned in turn. */
    private void expertLora(long in, long out, int adapters, int rank, int[] counts, Integer... index) {
        int rows = Arrays.stream(counts).sum();
        int experts = counts.length;
        add(
                "rows " + Arrays.toString(counts) + ", adapters " + numbers(index),
                new Adapters.ExpertLora(),
                g(rows, out),
                g(rows, in),
                g(experts, adapters, rank, in),
                g(experts, adapters, out, rank),
                x(adapters),
                ids(index),
                ids(IntStream.range(0, rows).mapToObj(r -> 2 * r % index.length).toArray(Integer[]::new)),
                offsets(counts));
    }

    private static String numbers(Integer... numbers) {
        return numbers.length < 20 ? Arrays.toString(numbers) : numbers.length + " of them";
    }

    private static long[] pair(boolean transposed, long rows, long columns) {
        return transposed ? new long[] {columns, rows} : new long[] {rows, columns};
    }

    private static long[] lead(long batch, long[] dims) {
        return new long[] {batch, dims[0], dims[1]};
    }

    private void rows() {
        add(new Plain.Permute(List.of(1, 0)), g(7, 13));
        add(new Plain.Permute(List.of(1, 0)), x(130, 67));
        add(new Plain.Permute(List.of(2, 0, 1)), g(5, 7, 11));
        add(new Plain.Permute(List.of(1, 2, 0)), g(5, 7, 11));
        add(new Plain.Permute(List.of(1, 2, 0, 3)), g(3, 2, 5, 7));
        add(new Plain.Permute(List.of(2, 0, 1, 3)), g(3, 2, 5, 130));
        add(new Plain.Permute(List.of(0, 1)), x(5, 3));
        add(new Plain.Permute(List.of(1, 0)), g(0, 5));
        for (DType type : List.of(DType.F32, DType.F16, DType.BF16)) {
            add(new Plain.Store(), drawn(NORMAL, type, 13, 7), distinct(5, 13), x(5, 7));
            add(new Plain.Store(), drawn(NORMAL, type, 67, 2, 65), distinct(11, 67), x(11, 2, 65));
            add(new Plain.Store(), drawn(NORMAL, type, 7, 5), ids(), x(0, 5));
        }
        add(new Plain.Gather(), g(13, 7), ids(5, 0, 12, 5, 5));
        add(new Plain.Gather(), x(11, 130), random(67, 11));
        add(new Plain.Gather(), x(5, 3, 7), ids(4, 0));
        add(new Plain.Gather(), x(5, 7), ids());
        add(new Plain.Gather(), x(0, 7), ids());
        add(new Plain.Gather(), x(13), ids(3, 3, 0));
        add(new Plain.ScatterAdd(13, DType.F32), g(7, 5), ids(5, 0, 12, 5, 5, 1, 0));
        add("all to one row", new Plain.ScatterAdd(3, DType.F32), g(130, 11), ids(nCopies(130, 1)));
        add(new Plain.ScatterAdd(11, DType.F32), x(67, 130), random(67, 11));
        add(new Plain.ScatterAdd(5, DType.F32), g(3, 2, 7), ids(4, 0, 4));
        add(new Plain.ScatterAdd(5, DType.F32), g(0, 7), ids());
        add(new Plain.Slice(2, 5), g(7, 13));
        add(new Plain.Slice(0, 7), g(7, 3));
        add(new Plain.Slice(3, 3), g(5, 11));
        add(new Plain.Slice(1, 130), x(131, 5, 7));
        add(new Plain.Slice(5, 600), x(601, 130));
        add(new Plain.Columns(2, 5), g(7, 13));
        add(new Plain.Columns(0, 7), g(5, 7));
        add(new Plain.Columns(3, 3), g(5, 11));
        add(new Plain.Columns(12, 13), g(2, 3, 13));
        add(new Plain.Columns(1, 4), g(5));
        add(new Plain.Columns(1, 4), g(0, 5));
        add(new Plain.Columns(0, 0), x(3, 0));
        add(new Plain.Columns(65, 130), g(11, 130));
        add(new Plain.Columns(7, 2071), x(13, 5003));
        add(new Plain.Columns(1, 3), x(517, 11));
        add(new Plain.Pad(2, 13), g(7, 5));
        add(new Plain.Pad(0, 7), g(5, 7));
        add(new Plain.Pad(3, 11), g(5, 0));
        add(new Plain.Pad(12, 13), g(2, 3, 1));
        add(new Plain.Pad(1, 5), g(3));
        add(new Plain.Pad(1, 5), g(0, 3));
        add(new Plain.Pad(0, 0), x(3, 0));
        add(new Plain.Pad(0, 130), g(11, 65));
        add(new Plain.Pad(7, 5003), x(13, 2071));
        add(new Plain.Pad(1, 11), x(517, 2));
        add(new Plain.Concat(), g(5, 7));
        add(new Plain.Concat(), g(2, 7), g(5, 7), g(1, 7));
        add(new Plain.Concat(), g(0, 5), g(3, 5), g(0, 5));
        add(new Plain.Concat(), x(11), x(13));
        add(new Plain.Concat(), x(600, 130), x(7, 130), x(517, 130));
        add(new Plain.Pick(), g(5, 13), ids(12, 0, -1, 13, IGNORED));
        add(new Plain.Pick(), g(7, 130), random(7, 130));
        add(new Plain.Pick(), x(0, 5), ids());
        add(new Plain.Pick(), g(5, 13), choices(1, 12, 0, -1, 13, IGNORED));
        add(new Plain.Pick(), g(3, 5), choices(3, 4, 0, 2, 1, 1, 1, 5, -1, 3));
        add(new Plain.Pick(), g(11, 130), randomChoices(11, 8, 130));
        add(new Plain.Pick(), x(517, 67), randomChoices(517, 7, 67));
        add(new Plain.Pick(), x(0, 5), choices(3));
        add(new Plain.Pick(), x(5, 7), randomChoices(5, 0, 7));
        add(new Plain.Unpick(13), g(5, 1), ids(12, 0, -1, 13, IGNORED));
        add(new Plain.Unpick(130), g(7, 1), random(7, 130));
        add(new Plain.Unpick(5), g(0, 1), ids());
        add(new Plain.Unpick(13), g(5, 1), choices(1, 12, 0, -1, 13, IGNORED));
        add("some of them the same", new Plain.Unpick(5), g(3, 3), choices(3, 4, 0, 2, 1, 1, 1, 5, -1, 3));
        add("all the same", new Plain.Unpick(7), g(5, 130), choices(130, nCopies(650, 3)));
        add(new Plain.Unpick(130), g(11, 8), randomChoices(11, 8, 130));
        add(new Plain.Unpick(5003), x(13, 3), randomChoices(13, 3, 5003));
        add(new Plain.Unpick(67), x(517, 7), randomChoices(517, 7, 67));
        add(new Plain.Unpick(5), x(0, 3), choices(3));
        add(new Plain.Unpick(7), x(5, 0), randomChoices(5, 0, 7));
        RaggedBatch ragged = RaggedBatch.of(4, 0, new int[] {5, 3}, new int[] {0, 0}, new int[] {1, 10});
        mask(0, 4, 3, ragged);
        mask(3, 4, 2, ragged);
        mask(0, 1, 1, RaggedBatch.of(1, 0, new int[] {7, 0}, new int[] {11, 0}));
        mask(5, 16, 2, RaggedBatch.of(16, 5, new int[] {1, 20}, new int[] {13, 0}));
        mask(0, 4, 2, RaggedBatch.of(4, 0));
    }

    private void mask(int window, int block, int heads, RaggedBatch ragged) {
        List<Input> inputs = new ArrayList<>(List.of(g(heads, ragged.queries(), ragged.keys())));
        inputs.addAll(ragged.layout());
        cases.add(new Case(new Plain.Mask(window, block), inputs, ragged.toString()));
    }

    private static Integer[] nCopies(int count, int value) {
        Integer[] copies = new Integer[count];
        Arrays.fill(copies, value);
        return copies;
    }

    private void reductions() {
        for (Plain.Sum.Over over : Plain.Sum.Over.values()) {
            add(new Plain.Sum(over), g(5, 7));
            add(new Plain.Sum(over), g(13, 130));
            add(new Plain.Sum(over), g(3, 5, 11));
            add(new Plain.Sum(over), g(13));
            add(new Plain.Sum(over), x(517, 258));
            add(new Plain.Sum(over), g(0, 5));
            add(new Plain.Sum(over), g(5, 0));
            add(
                    "large terms that cancel",
                    new Plain.Sum(over),
                    drawn((i, n) -> (i % 2 == 0 ? 1e5 : -1e5) + n, DType.F32, 11, 13));
        }
        Draw masked = (i, normal) -> i % 3 == 1 ? Double.NEGATIVE_INFINITY : normal;
        for (Op op : List.of(new Plain.Softmax(), new Plain.LogSumExp())) {
            add(op, g(5, 7));
            add(op, g(13, 130));
            add(op, g(2, 3, 11));
            add(op, g(7));
            add(op, x(67, 1030));
            add(op, x(3, 5003));
            add(op, x(0, 5));
            add(op, x(5, 0));
            add("one element a row", op, x(5, 1));
            add("large", op, drawn((i, n) -> 1e4 + 50 * n, DType.F32, 5, 130));
            add("masked", op, drawn(masked, DType.F32, 5, 67));
            add("equal", op, drawn((i, n) -> 3, DType.F32, 5, 13));
        }
        add("all masked", new Plain.LogSumExp(), drawn((i, n) -> Double.NEGATIVE_INFINITY, DType.F32, 3, 13));
        for (long[] dims : new long[][] {{5, 7}, {13, 130}, {2, 3, 11}, {0, 5}, {5, 0}, {67, 1030}, {3, 5003}}) {
            Input x = x(dims);
            add(
                    new Plain.SoftmaxGrad(),
                    drawn((i, n) -> Math.abs(n) / Math.max(1, dims[dims.length - 1]), DType.F32, dims),
                    x);
        }
        add(new Plain.Argmax(), x(5, 7));
        add(new Plain.Argmax(), x(13, 130));
        add(new Plain.Argmax(), x(3, 1030));
        add(new Plain.Argmax(), x(3, 5003));
        add(new Plain.Argmax(), x(2, 3, 11));
        add(new Plain.Argmax(), x(0, 5));
        add(new Plain.Argmax(), x(7));
        add("ties", new Plain.Argmax(), drawn((i, n) -> Math.rint(n), DType.F32, 7, 130));
        add("all equal", new Plain.Argmax(), drawn((i, n) -> -1, DType.F32, 3, 67));
        add("NaN among them", new Plain.Argmax(), drawn((i, n) -> i % 4 == 0 ? Double.NaN : n, DType.F32, 5, 67));
        add(
                "nothing wins",
                new Plain.Argmax(),
                drawn((i, n) -> i % 2 == 0 ? Double.NaN : Double.NEGATIVE_INFINITY, DType.F32, 3, 67));
    }

    private void experts() {
        Draw ties = (i, n) -> Math.rint(n);
        Draw equal = (i, n) -> -1;
        Draw someNaN = (i, n) -> i % 7 == 3 ? Double.NaN : n;
        Draw mostNaN = (i, n) -> i % 7 == 3 ? n : Double.NaN;
        Draw nothing = (i, n) -> i % 2 == 0 ? Double.NaN : Double.NEGATIVE_INFINITY;
        Draw infinite = (i, n) -> i % 5 == 0 ? Math.copySign(Double.POSITIVE_INFINITY, n) : n;
        for (Routing.Route op : List.of(
                new Routing.Route(1, 1, 1, 1),
                new Routing.Route(3, 1, 1, 1),
                new Routing.Route(3, 2, 1, 1),
                new Routing.Route(6, 2, 2, 1),
                new Routing.Route(3, 4, 1, 2),
                new Routing.Route(7, 4, 3, 5))) {
            add(op, x(13, 20));
            add(op, x(1, 20));
            add(op, x(0, 20));
            add("ties", op, drawn(ties, DType.F32, 13, 20));
            add("all equal", op, drawn(equal, DType.F32, 5, 20));
            add("NaN among them", op, drawn(someNaN, DType.F32, 11, 20));
            add("mostly NaN", op, drawn(mostNaN, DType.F32, 11, 20));
            add("nothing wins", op, drawn(nothing, DType.F32, 3, 20));
            add("infinities", op, drawn(infinite, DType.F32, 11, 20));
        }
        add("all of them", new Routing.Route(11, 1, 1, 1), x(5, 11));
        add("one expert", new Routing.Route(1, 1, 1, 1), x(7, 1));
        add("groups of one", new Routing.Route(3, 7, 5, 1), x(7, 7));
        add(new Routing.Route(8, 1, 1, 1), x(130, 130));
        add(new Routing.Route(8, 8, 4, 2), x(67, 256));
        add(new Routing.Route(3, 1, 1, 1), x(5, 5003));
        for (int k : new int[] {1, 3}) {
            add(new Routing.Group(5), randomChoices(13, k, 5));
            add(new Routing.Group(130), randomChoices(7, k, 130));
            add("all to one expert", new Routing.Group(7), choices(k, nCopies(11 * k, 4)));
            add("the first and the last without tokens", new Routing.Group(7), choices(k, nCopies(5 * k, 1)));
            add(new Routing.Group(1), randomChoices(11, k, 1));
            add(new Routing.Group(4), randomChoices(0, k, 4));
        }
        add(new Routing.Group(64), randomChoices(517, 8, 64));
        add("descending", new Routing.Group(5), choices(5, 4, 3, 2, 1, 0, 4, 3, 2, 1, 0));
        for (boolean transposed : new boolean[] {false, true}) {
            expertProducts(transposed);
        }
        outer(7, 13, 3, 0, 5, 1);
        outer(5, 11, 0, 130, 0);
        outer(130, 7, 1, 1, 1);
        outer(1, 1, 1);
        outer(67, 70, 600, 3, 13);
        outer(258, 131, 5, 67);
        outer(7, 5, 0, 0);
        outer(7, 5);
        outer(0, 5, 2, 1);
        outer(5, 0, 2, 1);
    }

    private void expertProducts(boolean transposed) {
        expertProduct(transposed, DType.F32, 7, 13, 3, 0, 5, 1);
        expertProduct(transposed, DType.F32, 13, 5, 0, 0, 9, 0);
        expertProduct(transposed, DType.F32, 11, 130, 1, 1, 1);
        expertProduct(transposed, DType.F32, 130, 7, 11);
        expertProduct(transposed, DType.F32, 1, 1, 0, 1);
        expertProduct(transposed, DType.F32, 67, 131, 17, 9, 40, 8, 0, 1);
        expertProduct(transposed, DType.F32, 258, 70, 2, 300, 7);
        expertProduct(transposed, DType.F32, 1030, 67, 12, 1, 0, 30);
        expertProduct(transposed, DType.F32, 7, 5, 0, 0);
        expertProduct(transposed, DType.F32, 7, 5);
        expertProduct(transposed, DType.F32, 0, 3, 2, 1);
        expertProduct(transposed, DType.F32, 3, 0, 2, 1);
        for (DType type : List.of(DType.F16, DType.BF16)) {
            expertProduct(transposed, type, 130, 13, 3, 0, 2);
            expertProduct(transposed, type, 67, 70, 0, 33, 0);
            expertProduct(transposed, type, 1030, 130, 1, 0, 9, 2);
        }
    }

    /** One expert per count of rows. */
    private void expertProduct(boolean transposed, DType type, long in, long out, int... counts) {
        Input offsets = offsets(counts);
        Input x = x(Arrays.stream(counts).sum(), in);
        Input w = drawn(
                NORMAL, type, transposed ? new long[] {counts.length, out, in} : new long[] {counts.length, in, out});
        boolean small = x.spec().shape().size() < 2000;
        add(
                "rows " + Arrays.toString(counts),
                new Routing.ExpertMatMul(transposed),
                small ? x.wanted() : x,
                small && type == DType.F32 ? w.wanted() : w,
                offsets);
    }

    private void outer(long m, long n, int... counts) {
        int rows = Arrays.stream(counts).sum();
        add("rows " + Arrays.toString(counts), new Routing.ExpertOuter(), x(rows, m), x(rows, n), offsets(counts));
    }

    private static Input offsets(int... counts) {
        Integer[] offsets = new Integer[counts.length + 1];
        offsets[0] = 0;
        for (int e = 0; e < counts.length; e++) {
            offsets[e + 1] = offsets[e] + counts[e];
        }
        return ids(offsets);
    }

    private void optimizer() {
        add(new Plain.Norm(), x(5, 7));
        add(new Plain.Norm(), x(130), x(0), x(11, 13), x());
        add(new Plain.Norm(), x(517, 258));
        add(new Plain.Norm(), x(0));
        add("of nothing", new Plain.Norm());
        for (double norm : new double[] {0.5, 20, Double.NaN, Double.POSITIVE_INFINITY}) {
            Plain.AdamW op = new Plain.AdamW(0.9, 0.999, 1e-8, 0.1, 1);
            adamW("norm " + norm, op, norm, 7, 13);
            adamW("norm " + norm, op, norm, 130);
        }
        adamW("no decay", new Plain.AdamW(0.9, 0.95, 1e-8, 0, 1), 3, 11, 5);
        adamW("large", new Plain.AdamW(0.9, 0.999, 1e-8, 0.01, 1), 3, 67, 517);
        adamW("empty", new Plain.AdamW(0.9, 0.999, 1e-8, 0.01, 1), 3, 0);
        for (long[] dims : new long[][] {{7, 13}, {256}, {67, 517}, {0}}) {
            add(new Training.Accumulate(), x(dims), x(dims));
            adamW8("", (i, n) -> 0.1 + Math.abs(n), 3, dims);
        }
        adamW8("moments of zero", (i, n) -> 0, 0.5, 300);
        adamW8("norm NaN", (i, n) -> 1, Double.NaN, 300);
        Draw zero = (i, n) -> 0;
        add(
                "first step",
                new Plain.AdamW(0.9, 0.999, 1e-8, 0.01, 1),
                x(13, 5),
                drawn(zero, DType.F32, 13, 5),
                drawn(zero, DType.F32, 13, 5),
                x(13, 5),
                constant(0.7),
                rate(1e-3, 1));
    }

    private void adamW8(String note, Draw moment, double norm, long... dims) {
        Shape shape = Shape.of(dims);
        Training.AdamW8 op = new Training.AdamW8(0.9, 0.999, 1e-8, 0.1, 1);
        add(
                note,
                op,
                x(dims),
                quants(shape, 1),
                quants(shape, 2),
                new Input(Training.AdamW8.scales(shape), new Source.Drawn(moment), false),
                x(dims),
                constant(norm),
                rate(1e-3, 10));
    }

    private static Input quants(Shape parameter, int seed) {
        Spec spec = Training.AdamW8.quants(parameter);
        List<Integer> words = IntStream.range(0, (int) spec.shape().size())
                .mapToObj(i -> Philox.words(i, 0, 0, 0, seed, 0)[0])
                .toList();
        return new Input(spec, new Source.Listed(words), false);
    }

    private void noise() {
        for (Input x : List.of(g(5, 7), g(3, 130), x(67, 5003), x(0, 5), x(11, 1))) {
            int n = (int) x.spec().shape().dim(0);
            Input key = ids(0x12345678, -7);
            add(new Training.Dropout(0.1f, 3), x, random(n, 1000), random(n, 17), key);
            add(new Training.Dropout(0, 3), x, random(n, 1000), random(n, 17), key);
            add(new Training.Noise(5), x, random(n, 1000), random(n, 17), key, drawn(POSITIVE, DType.F32, n));
        }
    }

    private void adamW(String note, Plain.AdamW op, double norm, long... dims) {
        Draw square = (i, n) -> n * n;
        add(note, op, x(dims), x(dims), drawn(square, DType.F32, dims), x(dims), constant(norm), rate(1e-3, 10));
    }

    private static Input constant(double value) {
        return drawn((i, n) -> value, DType.F32, 1);
    }

    private static Input rate(double rate, int step) {
        double[] values = {rate, 1 - Math.pow(0.9, step), 1 - Math.pow(0.999, step)};
        return drawn((i, n) -> values[i], DType.F32, 3);
    }

    private void norms() {
        for (long[] dims : new long[][] {{5, 7}, {11, 130}, {2, 3, 13}, {7}, {0, 5}, {67, 258}, {3, 1030}, {2, 5003}}) {
            boolean small = Shape.of(dims).size() < 2000;
            long c = dims[dims.length - 1];
            norm("", small ? g(dims) : x(dims), small ? g(c) : x(c), small ? g(c) : x(c));
        }
        norm("offset 300", drawn((i, n) -> 300 + n, DType.F32, 5, 13), x(13), x(13));
        norm("tiny", drawn((i, n) -> 1e-4 * n, DType.F32, 5, 67), x(67), x(67));
        norm("many rows", x(517, 35), x(35), x(35));
        norm("several rows of a group", x(2051, 3), x(3), x(3));
        norm("constant rows", drawn((i, n) -> 2, DType.F32, 5, 11), x(11), x(11));
    }

    private void norm(String note, Input x, Input w, Input b) {
        float eps = 1e-5f;
        long rows = x.spec().shape().rows();
        Fused.LayerNorm layer = new Fused.LayerNorm(eps);
        Input dy = new Input(x.spec(), new Source.Drawn(NORMAL), false);
        add(note, layer, x, w, b);
        for (boolean weights : new boolean[] {false, true}) {
            add(
                    note,
                    new Fused.LayerNormGrad(eps, weights),
                    frozen(x),
                    frozen(w),
                    frozen(b),
                    made(layer, 3, 1, rows),
                    made(layer, 3, 2, rows),
                    dy);
        }
        Fused.RmsNorm rms = new Fused.RmsNorm(eps);
        add(note, rms, x, w);
        for (boolean weights : new boolean[] {false, true}) {
            add(note, new Fused.RmsNormGrad(eps, weights), frozen(x), frozen(w), made(rms, 2, 1, rows), dy);
        }
    }

    static Input frozen(Input x) {
        return new Input(x.spec(), x.source(), false);
    }

    private static Input made(Op by, int inputs, int output, long... dims) {
        return new Input(Spec.f32(dims), new Source.Made(by, inputs, output), false);
    }

    private void positions() {
        for (boolean inverse : new boolean[] {false, true}) {
            rope(1, inverse, 32, g(5, 3, 64), ids(0, 1, 7, 8, 4095));
            rope(1, inverse, 2, g(7, 2, 5), ids(3, 2, 1, 0, 9, 9, 100));
            rope(1.25f, inverse, 8, g(3, 4, 130), ids(0, 5, 77));
            rope(1, inverse, 65, g(2, 1, 130), ids(11, 12));
            rope(1, inverse, 16, x(67, 11, 32), random(67, 16_384));
            rope(1, inverse, 16, x(131, 12, 48), random(131, 4096));
            rope(1, inverse, 0, g(5, 2, 7), random(5, 100));
            rope(1, inverse, 4, g(0, 2, 8), ids());
            rope(1, inverse, 8, x(5, 2, 16), ids(131_071, 100_000, 65_537, 32_769, 16_385));
        }
    }

    private void rope(float magnitude, boolean inverse, int half, Input x, Input positions) {
        Draw frequency = (i, n) -> Math.pow(10_000, -(double) i / half);
        add(new Fused.Rope(magnitude, inverse), x, positions, drawn(frequency, DType.F32, half));
    }

    private void gates() {
        for (Fn fn : List.of(Fn.SILU, Fn.GELU_TANH, Fn.SIGMOID)) {
            for (long[] dims : new long[][] {{5, 7}, {11, 130}, {0, 5}, {2, 3, 13}, {130, 517}}) {
                boolean small = Shape.of(dims).size() < 2000;
                add(new Fused.Gated(fn), small ? g(dims) : x(dims), small ? g(dims) : x(dims));
                add(new Fused.GatedGrad(fn), x(dims), x(dims), x(dims));
            }
            Input wide = drawn((i, n) -> 30 * n, DType.F32, 11, 13);
            add("wide", new Fused.Gated(fn), wide, x(11, 13));
            add("wide", new Fused.GatedGrad(fn), wide, x(11, 13), x(11, 13));
        }
    }

    private void losses() {
        loss("", g(5, 13), ids(0, 12, 5, 5, 7));
        loss("ignored labels", g(7, 130), ids(129, IGNORED, 0, IGNORED, 64, 5, IGNORED));
        loss("large logits", drawn((i, n) -> 30 * n, DType.F32, 11, 67).wanted(), random(11, 67));
        loss("huge logits", drawn((i, n) -> 1e4 + 100 * n, DType.F32, 5, 130), random(5, 130));
        loss("large vocabulary", x(13, 5003), random(13, 5003));
        loss("one class", x(5, 1), ids(0, 0, 0, 0, IGNORED));
        loss("", x(0, 11), ids());
    }

    private void loss(String note, Input logits, Input labels) {
        long n = logits.spec().shape().dim(0);
        List<Integer> listed = ((Source.Listed) labels.source()).values();
        Input weights = drawn((i, normal) -> listed.get(i) == IGNORED ? 0 : 0.1 + Math.abs(normal), DType.F32, n);
        Fused.CrossEntropy op = new Fused.CrossEntropy();
        add(note, op, logits, labels, weights);
        for (DType to : List.of(DType.F32, DType.BF16)) {
            add(note, new Fused.CrossEntropyGrad(to), frozen(logits), labels, weights, made(op, 3, 1, n), x(n));
        }
    }

    private void attention() {
        int[] empty = {0, 0};
        for (DType type : List.of(DType.F32, DType.F16, DType.BF16)) {
            // prompts and single tokens of a served step, in shuffled blocks
            attend(type, 0, 4, 2, 1, 5, new int[] {3, 0}, empty, new int[] {1, 9}, new int[] {2, 6});
            attend(type, 0, 16, 4, 2, 16, new int[] {1, 130}, new int[] {7, 0}, new int[] {1, 3});
            attend(type, 11, 16, 4, 1, 64, new int[] {1, 67}, new int[] {13, 5});
            attend(type, 0, 4, 2, 2, 130, new int[] {5, 0}, new int[] {1, 20});
            attend(type, 0, 16, 4, 1, 128, new int[] {1, 130}, new int[] {1, 3});
        }
        for (DType type : List.of(DType.F16, DType.BF16)) {
            tiles(type, 0, 128, new int[] {35, 70}, new int[] {21, 0});
            tiles(type, 40, 128, new int[] {150, 10}, empty, new int[] {1, 3});
        }
        tiles(DType.BF16, 0, 64, new int[] {35, 70}, new int[] {21, 0});
        tiles(DType.BF16, 0, 64, new int[] {20, 380});
        tiles(DType.F16, 40, 80, new int[] {50, 10}, empty, new int[] {1, 3});
        tiles(DType.BF16, 0, 256, new int[] {35, 40});
        // gradients on a GPU: several tiles of queries, of keys, or of both, with heads of every kind
        gradientTiles(DType.BF16, 0, 1, 4, 1, 128, new int[] {150, 0}, new int[] {21, 0});
        gradientTiles(DType.F16, 40, 16, 2, 2, 64, new int[] {150, 10}, empty, new int[] {1, 3});
        gradientTiles(DType.F16, 0, 16, 3, 1, 80, new int[] {35, 110});
        gradientTiles(DType.BF16, 20, 1, 2, 1, 256, new int[] {35, 0}, new int[] {7, 0});
        // enough sequences and heads that a group processes several heads of a key: all that share it, and half of them
        gradientTiles(DType.BF16, 0, 1, 48, 24, 16, oneLong(16));
        gradientTiles(DType.F16, 0, 1, 96, 24, 16, oneLong(8));
        // packed training: every row a block of its own
        attend(DType.F32, 0, 1, 4, 2, 16, new int[] {7, 0}, new int[] {11, 0}, empty, new int[] {5, 0});
        attend(DType.F32, 5, 1, 2, 2, 5, new int[] {13, 0}, new int[] {7, 0});
        attend(DType.F32, 0, 1, 4, 1, 130, new int[] {5, 0}, new int[] {3, 0});
        attend(DType.F32, 0, 1, 1, 1, 64, new int[] {1, 0});
        attend(DType.F32, 1, 1, 2, 1, 7, new int[] {5, 0});
        attend(DType.F32, 130, 16, 2, 1, 16, new int[] {13, 0});
        attend(DType.F32, 0, 16, 4, 2, 32, new int[] {67, 0}, new int[] {1, 258}, new int[] {33, 11});
        attend(DType.F32, 0, 4, 2, 1, 8);
        attend(DType.F32, 0, 4, 2, 1, 8, empty, empty);
        attendInt8(0, 4, 2, 1, 5, new int[] {3, 0}, empty, new int[] {1, 9}, new int[] {2, 6});
        attendInt8(0, 16, 4, 2, 16, new int[] {1, 130}, new int[] {7, 0}, new int[] {1, 3});
        attendInt8(11, 16, 4, 1, 64, new int[] {1, 67}, new int[] {13, 5});
        attendInt8(0, 16, 4, 1, 130, new int[] {1, 33}, new int[] {1, 3});
        RaggedBatch poisoned = RaggedBatch.of(4, 3, new int[] {5, 0}, new int[] {1, 9});
        Case.Draw cache = poisoned.cache(2 * 16, Double.NaN);
        attend(
                "NaN in unseen rows",
                poisoned,
                new Fused.Attention(0.25f, 3, 4),
                4,
                drawn(cache, DType.F32, poisoned.rows(), 2, 16),
                drawn(cache, DType.F32, poisoned.rows(), 2, 16));
    }

    /** Enough queries for the tiled GPU kernels, in the type of the cache. */
    private void tiles(DType type, int window, int d, int[]... sequences) {
        RaggedBatch ragged = RaggedBatch.of(16, window, sequences);
        Input cache = drawn(ragged.cache(d), type, ragged.rows(), 1, d);
        List<Input> inputs = new ArrayList<>(List.of(drawn(NORMAL, type, ragged.queries(), 2, d), cache, cache));
        inputs.addAll(ragged.layout());
        cases.add(new Case(new Fused.Attention(0.09f, window, 16), inputs, ragged.toString()));
    }

    /** Sequences of one token after a sequence of two tiles. */
    private static int[][] oneLong(int count) {
        int[][] sequences = new int[count][];
        Arrays.fill(sequences, new int[] {1, 0});
        sequences[0] = new int[] {40, 0};
        return sequences;
    }

    private void gradientTiles(DType type, int window, int block, int heads, int kvHeads, int d, int[]... sequences) {
        RaggedBatch ragged = RaggedBatch.of(block, window, sequences);
        Input cache = drawn(ragged.cache(kvHeads * d), DType.F32, ragged.rows(), kvHeads, d);
        List<Input> inputs = new ArrayList<>(List.of(x(ragged.queries(), heads, d), cache, cache));
        inputs.addAll(ragged.layout());
        Fused.Attention op = new Fused.Attention((float) (1 / Math.sqrt(d)), window, block);
        cases.add(TypedCases.as(type, gradient(op, inputs, ragged.toString())));
    }

    private void attend(DType type, int window, int block, int heads, int kvHeads, int d, int[]... sequences) {
        RaggedBatch ragged = RaggedBatch.of(block, window, sequences);
        Input cache = drawn(ragged.cache(kvHeads * d), type, ragged.rows(), kvHeads, d);
        boolean gradient = type == DType.F32 && ragged.queries() <= 30;
        boolean choice = window != 1 && ragged.queries() > 1; // a single key has probability 1 for any q and k
        Fused.Attention op = new Fused.Attention((float) (1 / Math.sqrt(d)), window, block);
        attend("", ragged, op, heads, gradient && choice ? cache.wanted() : cache, gradient ? cache.wanted() : cache);
    }

    /** Quantized values over their whole range, also in rows that no query reads. */
    private void attendInt8(int window, int block, int heads, int kvHeads, int d, int[]... sequences) {
        RaggedBatch ragged = RaggedBatch.of(block, window, sequences);
        Input quants = drawn((i, n) -> Math.clamp(Math.rint(45 * n), -127, 127), DType.I8, ragged.rows(), kvHeads, d);
        Input scales = drawn((i, n) -> (0.5 + Math.abs(n)) / 45, DType.F16, ragged.rows(), kvHeads);
        List<Input> inputs = new ArrayList<>(List.of(x(ragged.queries(), heads, d), quants, quants));
        inputs.addAll(ragged.layout());
        inputs.addAll(List.of(scales, scales));
        cases.add(new Case(new Fused.Attention((float) (1 / Math.sqrt(d)), window, block), inputs, ragged.toString()));
    }

    /** Rows of any magnitude, of zeros, and of values too small or too large for a scale. */
    private void storeInt8() {
        Draw spread = (i, n) -> n * Math.pow(10, i % 7 - 3);
        for (long[] hd : new long[][] {{1, 7}, {2, 16}, {3, 130}, {2, 1}, {1, 0}}) {
            Input quants = drawn((i, n) -> Math.rint(n), DType.I8, 13, hd[0], hd[1]);
            Input scales = drawn(POSITIVE, DType.F16, 13, hd[0]);
            add(new Decoding.StoreInt8(), quants, scales, distinct(5, 13), drawn(spread, DType.F32, 5, hd[0], hd[1]));
        }
        Input quants = drawn((i, n) -> Math.rint(n), DType.I8, 5, 2, 5);
        Input scales = drawn(POSITIVE, DType.F16, 5, 2);
        double[] sizes = {0, 1e-9, 3e-6, 1e7, 127, 1};
        Draw sized = (i, n) -> n * sizes[i / 5 % sizes.length];
        add("sizes", new Decoding.StoreInt8(), quants, scales, ids(4, 0, 2), drawn(sized, DType.F32, 3, 2, 5));
        add(
                "ties",
                new Decoding.StoreInt8(),
                quants,
                scales,
                ids(1),
                drawn((i, n) -> i == 0 ? 127 : i + 0.5, DType.F32, 1, 2, 5));
        add(new Decoding.StoreInt8(), quants, scales, ids(), x(0, 2, 5));
        for (DType to : List.of(DType.F32, DType.F16, DType.BF16)) {
            add(new Plain.Cast(to), drawn((i, n) -> i - 128, DType.I8, 16, 16));
        }
    }

    private void attend(String note, RaggedBatch ragged, Fused.Attention op, int heads, Input k, Input v) {
        int n = ragged.queries();
        long d = k.spec().shape().dim(2);
        List<Input> inputs = new ArrayList<>(List.of(k.gradient() ? g(n, heads, d) : x(n, heads, d), k, v));
        inputs.addAll(ragged.layout());
        String name = note.isEmpty() ? ragged.toString() : ragged + ", " + note;
        cases.add(new Case(op, inputs, name));
        if (k.spec().dtype() == DType.F32) {
            cases.add(gradient(op, inputs, name));
        }
    }

    /** The gradient of attention over these inputs. */
    private static Case gradient(Fused.Attention op, List<Input> inputs, String name) {
        long[] y = inputs.get(0).spec().shape().dims();
        List<Input> backward = new ArrayList<>();
        inputs.forEach(input -> backward.add(frozen(input)));
        backward.add(made(op, 6, 0, y));
        backward.add(made(op, 6, 1, y[0], y[1]));
        backward.add(x(y));
        return new Case(new Fused.AttentionGrad(op.scale(), op.window(), op.block()), backward, name);
    }
}
