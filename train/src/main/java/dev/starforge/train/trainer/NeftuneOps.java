package dev.starforge.train.trainer;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Training;
import java.util.function.BiFunction;

/**
 * Adds LoRA dropout and NEFTune noise. Wraps the tape and the operations of each block, so a recomputed block has the
 * same noise.
 */
record NeftuneOps(Ops ops, Noise noise) implements Ops {
    private static final int EMBEDDING = 0;

    /**
     * @param dropout dropout probability on the inputs of LoRA
     * @param magnitudes of the noise on each token's embedding; used if {@code embedding} is true
     */
    record Noise(float dropout, boolean embedding, Tensor samples, Tensor positions, Tensor key, Tensor magnitudes) {}

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
        return ops.block(x, (inner, y) -> body.apply(new NeftuneOps(inner, noise), y));
    }

    @Override
    public Tensor embed(Tensor table, Tensor ids) {
        Tensor x = ops.embed(table, ids);
        return noise.embedding
                ? run(new Training.Noise(EMBEDDING), x, noise.samples, noise.positions, noise.key, noise.magnitudes)
                : x;
    }

    @Override
    public Tensor dropout(Tensor x, int site) {
        return noise.dropout > 0
                ? run(new Training.Dropout(noise.dropout, site), x, noise.samples, noise.positions, noise.key)
                : x;
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
