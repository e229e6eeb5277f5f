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
    /** Logits [R, V] of the rows the batch wants. Which Ops decides whether this is inference, training or a plan. */
    default Tensor forward(Ops ops, Batch batch, KvCache cache) {
        return logits(ops, hiddenStates(ops, batch, cache));
    }

    /** What the last layer makes of the rows the batch wants, [R, C]: all but the product with the vocabulary. */
    default Tensor hiddenStates(Ops ops, Batch batch, KvCache cache) {
        List<BiFunction<Ops, Tensor, Tensor>> chain = new ArrayList<>();
        for (Block block : blocks()) {
            chain.add((o, x) -> block.forward(o, x, batch, cache));
        }
        Ops bound = new AdapterOps(ops, batch.rowAdapters());
        return finalNorm(bound, batch.wanted(bound, bound.chain(embed(bound, batch), chain)));
    }

    /** The embeddings of all tokens of the batch, [N, C]: what the first block reads. */
    Tensor embed(Ops ops, Batch batch);

    /** The transformer blocks in order. Each can be run by itself, which is how weights are quantized layer by layer. */
    List<Block> blocks();

    /** The norm after the last block, of any rows [n, C]. */
    Tensor finalNorm(Ops ops, Tensor x);

    /** Logits [n, V] of some rows of {@link #hiddenStates}, so that a long batch need not have all of them at once. */
    Tensor logits(Ops ops, Tensor hidden);

    /** Which rotary tables hold for texts of this length; a cache filled in one regime is of no use in another. */
    int ropeRegime(int length);

    ModelInfo info();

    /** One transformer block: hidden states of all tokens of a batch to those after it. */
    interface Block {
        /** x[N, C] -> [N, C]. */
        Tensor forward(Ops ops, Tensor x, Batch batch, KvCache cache);

        /**
         * The matrices it multiplies with, by HF's names and in the order of loading: projections, routers, and stacks of
         * experts [experts, out, in], each under the names of its parts.
         */
        List<Parameter> matrices();
    }

    /**
     * What a user of a model must know of it.
     *
     * @param vocabulary number of tokens it knows
     * @param context positions it was made for
     * @param window positions that every layer sees back; 0 where one sees all
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

        /** What each layer keeps of a position. */
        public List<KvCacheSpec> kvCacheSpecs() {
            return Collections.nCopies(layers, new KvCacheSpec(kvHeads, headDim, slidingWindow, latent));
        }
    }
}
