package dev.starforge.train.trainer;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Ops;
import java.util.List;
import java.util.Set;
import java.util.function.BiFunction;

/** Records every input of every operation. */
record RecordingOps(Ops ops, Set<Tensor> seen) implements Ops {
    @Override
    public Tensor[] runAll(Op op, Tensor... in) {
        seen.addAll(List.of(in));
        return ops.runAll(op, in);
    }

    @Override
    public Tensor reshape(Tensor x, Shape shape) {
        seen.add(x);
        return ops.reshape(x, shape);
    }

    @Override
    public Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body) {
        seen.add(x);
        return ops.block(x, (inner, y) -> body.apply(new RecordingOps(inner, seen), y));
    }

    @Override
    public Scope scope() {
        return ops.scope();
    }

    @Override
    public Ops shapesOnly() {
        return ops.shapesOnly();
    }

    @Override
    public Precision precision() {
        return ops.precision();
    }
}
