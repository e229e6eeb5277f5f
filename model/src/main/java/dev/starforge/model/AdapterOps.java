package dev.starforge.model;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Ops;
import java.util.function.BiFunction;

/**
 * Ops that know the adapters of the batch a model runs. A projection is given x and ops, nothing else, and so it stays: the
 * index takes the way that dropout takes, through the ops and what they hand to a block. No architecture passes it on, and
 * under a checkpointing tape a block that runs again has it again.
 */
record AdapterOps(Ops ops, Tensor adapters) implements Ops {
    @Override
    public Tensor[] runAll(Op op, Tensor... in) {
        return ops.runAll(op, in);
    }

    @Override
    public Tensor reshape(Tensor x, Shape shape) {
        return ops.reshape(x, shape);
    }

    @Override
    public Tensor block(Tensor x, BiFunction<Ops, Tensor, Tensor> body) {
        return ops.block(x, (inner, y) -> body.apply(new AdapterOps(inner, adapters), y));
    }

    @Override
    public Tensor embed(Tensor table, Tensor ids) {
        return ops.embed(table, ids);
    }

    @Override
    public Tensor dropout(Tensor x, int site) {
        return ops.dropout(x, site);
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
