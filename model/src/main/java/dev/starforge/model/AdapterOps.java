package dev.starforge.model;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Ops;
import java.util.function.BiFunction;

/**
 * Ops that carry the adapter index of each row of the batch. Projections receive only x and ops, so the index travels with the
 * ops, as the dropout state does. Architectures need not pass it on, and a block that gradient checkpointing recomputes
 * receives it again.
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
