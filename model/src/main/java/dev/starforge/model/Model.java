package dev.starforge.model;

import dev.starforge.tensor.Batch;
import dev.starforge.tensor.Ops;
import dev.starforge.tensor.Tensor;

/** A loaded causal language model. */
public interface Model {
    /** Logits [R, V] of the rows the batch wants. Which Ops decides whether this is inference, training or a plan. */
    default Tensor forward(Ops ops, Batch batch, KvCache cache) {
        return logits(ops, hidden(ops, batch, cache));
    }

    /** What the last layer makes of the rows the batch wants, [R, C]: all but the product with the vocabulary. */
    Tensor hidden(Ops ops, Batch batch, KvCache cache);

    /** Logits [n, V] of some rows of {@link #hidden}, so that a long batch need not have all of them at once. */
    Tensor logits(Ops ops, Tensor hidden);

    /** Which rotary tables hold for texts of this length; a cache filled in one regime is of no use in another. */
    int regime(int length);

    Facts facts();

    /**
     * What a user of a model must know of it.
     *
     * @param vocabulary number of tokens it knows
     * @param context positions it was made for
     * @param latent whether values are part of the cached keys, as in multi-head latent attention
     */
    record Facts(int vocabulary, int context, int layers, int kvHeads, int headDim, boolean latent) {
        public static Facts of(int vocabulary, int context, int layers, int kvHeads, int headDim) {
            return new Facts(vocabulary, context, layers, kvHeads, headDim, false);
        }
    }
}
