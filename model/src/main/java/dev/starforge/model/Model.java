package dev.starforge.model;

import dev.starforge.tensor.Batch;
import dev.starforge.tensor.Ops;
import dev.starforge.tensor.Tensor;

/** A loaded causal language model. */
public interface Model {
    /** Logits [R, V] of the rows the batch wants. Which Ops decides whether this is inference, training or a plan. */
    Tensor forward(Ops ops, Batch batch, KvCache cache);

    Facts facts();

    /**
     * What a user of a model must know of it.
     *
     * @param vocabulary number of tokens it knows
     * @param context positions it was made for
     */
    record Facts(int vocabulary, int context, int layers, int kvHeads, int headDim) {}
}
