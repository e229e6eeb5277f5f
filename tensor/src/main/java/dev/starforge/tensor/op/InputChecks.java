package dev.starforge.tensor.op;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;

/** Input checks of operations; each message names the operation, what was expected and what came. */
final class InputChecks {
    private InputChecks() {}

    static void count(Op op, int expected, Spec... in) {
        if (in.length != expected) {
            throw new ShapeException(op.name() + ": expected " + expected + " inputs, got " + in.length);
        }
    }

    static void type(Op op, DType expected, Spec... in) {
        for (int i = 0; i < in.length; i++) {
            if (in[i].dtype() != expected) {
                throw new ShapeException(op.name() + ": expected " + expected + ", got " + in[i]);
            }
        }
    }

    static void isFloat(Op op, Spec... in) {
        for (Spec each : in) {
            if (!each.dtype().isFloat()) {
                throw new ShapeException(op.name() + ": expected a float type, got " + each);
            }
        }
    }

    /** The type that an operation states for its output. */
    static void isFloat(String op, DType to) {
        if (!to.isFloat()) {
            throw new ShapeException(op + ": cannot write " + to + ", expected a float type");
        }
    }

    /** A float type or, where the operation reads quantized weights, a type of those. */
    static void weight(Op op, Spec in) {
        if (!in.dtype().isWeight()) {
            throw new ShapeException(op.name() + ": expected a float or quantized type, got " + in);
        }
    }

    static void rank(Op op, int expected, Spec in) {
        if (in.shape().rank() != expected) {
            throw new ShapeException(op.name() + ": expected " + expected + " dimensions, got " + in);
        }
    }

    static void same(Op op, Shape expected, Shape actual) {
        if (!expected.equals(actual)) {
            throw new ShapeException(op.name() + ": expected shape " + expected + ", got " + actual);
        }
    }

    /** starts i32[S + 1], positions i32[N], tables i32[S, M]. */
    static void ragged(Op op, long tokens, Spec starts, Spec positions, Spec tables) {
        type(op, DType.I32, starts, positions, tables);
        rank(op, 2, tables);
        same(op, Shape.of(tables.shape().dim(0) + 1), starts.shape());
        same(op, Shape.of(tokens), positions.shape());
    }

    static void paging(int window, int block) {
        if (window < 0 || block < 1) {
            throw new ShapeException(
                    "Attention: window " + window + " and block " + block + ": expected at least 0 and at least 1");
        }
    }
}
