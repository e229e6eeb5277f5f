package dev.starforge.model;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Ops;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.BiFunction;

/** A loaded causal language model. */
public interface Model {
    /** Returns the logits [R, V] of the batch's logit rows. The {@link Ops} decide whether this is inference, training or a plan. */
    default Tensor forward(Ops ops, Batch batch, KvCache cache) {
        return logits(ops, hiddenStates(ops, batch, cache));
    }

    /** Returns the hidden states [R, C] of the batch's logit rows after the final norm, the input of the LM head. */
    default Tensor hiddenStates(Ops ops, Batch batch, KvCache cache) {
        List<BiFunction<Ops, Tensor, Tensor>> chain = new ArrayList<>();
        for (Block block : blocks()) {
            chain.add((o, x) -> block.forward(o, x, batch, cache));
        }
        Ops bound = new AdapterOps(ops, batch.rowAdapters());
        return finalNorm(bound, batch.wanted(bound, bound.chain(embed(bound, batch), chain)));
    }

    /** Returns the token embeddings [N, C] of the batch, the input of the first block. */
    Tensor embed(Ops ops, Batch batch);

    /** Returns the transformer blocks in order. Each can run alone, for layer-by-layer quantization. */
    List<Block> blocks();

    /** Applies the norm after the last block to any rows [n, C]. */
    Tensor finalNorm(Ops ops, Tensor x);

    /** Applies the LM head: logits [n, V] of some rows of {@link #hiddenStates}, so that a long batch can be processed in parts. */
    Tensor logits(Ops ops, Tensor hidden);

    /** Returns the rope regime of sequences of this length. Keys that were cached in one regime are invalid in another. */
    int ropeRegime(int length);

    ModelInfo info();

    /** A transformer block. */
    interface Block {
        /** x[N, C] -> [N, C]. */
        Tensor forward(Ops ops, Tensor x, Batch batch, KvCache cache);

        /**
         * Returns its weight matrices in the order of loading: projections, routers, and stacks of experts [experts, out, in],
         * each with HF's names of its parts.
         */
        List<Parameter> matrices();
    }

    /**
     * The dimensions that callers need.
     *
     * @param contextLength maximum number of positions
     * @param slidingWindow attention window in tokens; 0 if a layer has full attention
     * @param latent whether values are part of the cached keys, as in multi-head latent attention
     */
    record ModelInfo(
            int vocabSize, int contextLength, int layers, int kvHeads, int headDim, int slidingWindow, boolean latent) {
        public static ModelInfo of(int vocabulary, int context, int layers, int kvHeads, int headDim) {
            return new ModelInfo(vocabulary, context, layers, kvHeads, headDim, 0, false);
        }

        public ModelInfo withWindow(int positions) {
            return new ModelInfo(vocabSize, contextLength, layers, kvHeads, headDim, positions, latent);
        }

        /** Returns the KV cache spec of each layer. */
        public List<KvCacheSpec> kvCacheSpecs() {
            return Collections.nCopies(layers, new KvCacheSpec(kvHeads, headDim, slidingWindow, latent));
        }
    }
}
