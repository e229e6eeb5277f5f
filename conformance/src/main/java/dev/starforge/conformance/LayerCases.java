package dev.starforge.conformance;

import static dev.starforge.conformance.Cases.NORMAL;
import static dev.starforge.conformance.Cases.drawn;
import static dev.starforge.conformance.Cases.g;
import static dev.starforge.conformance.Cases.x;

import dev.starforge.conformance.Case.Input;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Plain;
import java.util.ArrayList;
import java.util.List;

/** Cases of fused layers: matmuls with epilogues, with one and several weights, few and many rows; additions with norms. */
final class LayerCases {
    private final List<Case> cases = new ArrayList<>();

    private LayerCases() {
        for (boolean bias : new boolean[] {false, true}) {
            linear(5, 7, bias, Fn.IDENTITY, false, 13, 3, 3);
            linear(1, 130, bias, Fn.IDENTITY, false, 11, 67);
            linear(7, 13, bias, Fn.SILU, false, 130);
            linear(2, 67, bias, Fn.GELU_TANH, false, 7, 5);
            linear(3, 258, bias, Fn.IDENTITY, true, 11);
            linear(11, 5, bias, Fn.GELU_TANH, true, 13);
            linear(37, 67, bias, Fn.IDENTITY, true, 70);
            linear(48, 33, bias, Fn.SILU, false, 65, 66, 7);
            linear(0, 5, bias, Fn.SILU, false, 3, 2);
            linear(3, 0, bias, Fn.IDENTITY, true, 5);
            linear(5, 7, bias, Fn.IDENTITY, false, 3, 0, 2, 4);
        }
        for (boolean transposeA : new boolean[] {false, true}) {
            for (boolean transposeB : new boolean[] {false, true}) {
                addMatMul(transposeA, transposeB, 5, 7, 11);
                addMatMul(transposeA, transposeB, 37, 130, 70);
            }
        }
        addMatMul(false, false, 3, 0, 5);
        addMatMul(false, false, 0, 7, 5);
        cases.add(new Case(
                new Layers.AddMatMul(new Plain.MatMul(false, false)),
                List.of(x(67, 13), drawn(NORMAL, DType.Q8_0, 13, 64), x(67, 64)),
                ""));
        linear(50, 1030, true, Fn.GELU_TANH, false, 300);
        mixed(DType.F32, DType.F16, DType.BF16, DType.F32);
        mixed(DType.F32, DType.Q8_0, DType.F32, DType.Q4_0);
        mixed(DType.BF16, DType.BF16, DType.Q8_0);
        for (DType type : new DType[] {DType.BF16, DType.F16}) {
            batch(type, type, 9, 320, true, Fn.GELU_TANH, false, 40);
            batch(type, type, 33, 64, true, Fn.IDENTITY, true, 150);
            batch(type, type, 64, 192, false, Fn.SILU, false, 24, 72, 5);
            batch(type, DType.Q4_0, 31, 576, true, Fn.GELU_TANH, true, 144);
            batch(type, DType.Q8_0, 64, 192, true, Fn.IDENTITY, false, 128, 16, 16);
            batch(type, DType.Q4_K, 17, 768, true, Fn.SILU, true, 32);
        }
        for (DType type :
                new DType[] {DType.Q5_1, DType.Q6_K, DType.Q5_K, DType.NF4, DType.NF4_DOUBLE, DType.INT8_128}) {
            batch(DType.BF16, type, 16, 256, false, Fn.IDENTITY, false, 144);
            batch(DType.BF16, type, 50, 1024, true, Fn.GELU_TANH, true, 16);
        }
        for (long[] dims : new long[][] {{5, 7}, {11, 130}, {2, 3, 13}, {7}, {0, 5}, {67, 258}, {2, 5003}}) {
            long c = dims[dims.length - 1];
            norms(g(dims), g(dims), x(c));
        }
        norms(drawn(NORMAL, DType.BF16, 5, 13), x(5, 13), x(13));
        norms(x(5, 13), drawn(NORMAL, DType.F16, 5, 13), x(13));
    }

    static List<Case> all() {
        return new LayerCases().cases;
    }

    private void linear(long rows, long in, boolean bias, Fn fn, boolean residual, long... outs) {
        List<Input> inputs = new ArrayList<>(List.of(g(rows, in)));
        for (long out : outs) {
            inputs.add(g(out, in));
        }
        for (int i = 0; i < outs.length && bias; i++) {
            inputs.add(g(outs[i]));
        }
        if (residual) {
            inputs.add(g(rows, outs[0]));
        }
        boolean small = rows * in < 1000;
        List<Input> all = small ? inputs : inputs.stream().map(Cases::frozen).toList();
        cases.add(new Case(new Layers.Linear(outs.length, bias, fn, residual, DType.F32, false), all, ""));
    }

    private void addMatMul(boolean transposeA, boolean transposeB, long rows, long terms, long columns) {
        Input a = transposeA ? g(terms, rows) : g(rows, terms);
        Input b = transposeB ? g(columns, terms) : g(terms, columns);
        List<Input> inputs = List.of(a, b, g(rows, columns));
        boolean small = rows * terms < 1000;
        cases.add(new Case(
                new Layers.AddMatMul(new Plain.MatMul(transposeA, transposeB)),
                small ? inputs : inputs.stream().map(Cases::frozen).toList(),
                ""));
    }

    /** Weights of different types, as in some files for queries, keys and values. */
    private void mixed(DType x, DType... weights) {
        List<Input> inputs = new ArrayList<>(List.of(drawn(NORMAL, x, 5, 64)));
        for (int i = 0; i < weights.length; i++) {
            inputs.add(drawn(NORMAL, weights[i], 7 + 26L * i, 64));
        }
        cases.add(new Case(new Layers.Linear(weights.length, false, Fn.IDENTITY, false, x, false), inputs, ""));
    }

    /** Small batches of 16-bit rows with weights of one type, which the kernel reads once. */
    private void batch(DType x, DType w, long rows, long in, boolean bias, Fn fn, boolean residual, long... outs) {
        List<Input> inputs = new ArrayList<>(List.of(drawn(NORMAL, x, rows, in)));
        for (long out : outs) {
            inputs.add(drawn(NORMAL, w, out, in));
        }
        for (int i = 0; i < outs.length && bias; i++) {
            inputs.add(x(outs[i]));
        }
        if (residual) {
            inputs.add(drawn(NORMAL, x, rows, outs[0]));
        }
        cases.add(new Case(new Layers.Linear(outs.length, bias, fn, residual, x, false), inputs, ""));
    }

    private void norms(Input x, Input y, Input w) {
        float eps = 1e-5f;
        cases.add(new Case(new Layers.AddRmsNorm(eps), List.of(x, y, w), ""));
        cases.add(new Case(new Layers.AddLayerNorm(eps), List.of(x, y, w, w), ""));
    }
}
