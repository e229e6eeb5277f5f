package dev.starforge.model;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Ops;

/** The KV cache of a model. Attention appends the keys and values of this step and attends over the result. */
public interface KvCache {
    /** The cached keys and values of a layer, including those of this step. */
    interface Kv {
        /** Attention of q[N, H, D] over them. */
        Tensor attend(Ops ops, Tensor q, Batch batch, float scale, int window);
    }

    Kv append(Ops ops, int layer, Tensor k, Tensor v, Batch batch);

    /** Returns true if it stores latents, one row for all heads, for multi-head latent attention. */
    default boolean latent() {
        return false;
    }

    /** No cache: each sequence begins in this step. Training uses it, so that gradients flow to keys and values. */
    KvCache NONE = (ops, layer, k, v, batch) -> (o, q, b, scale, window) -> o.attend(q, k, v, b, scale, window);
}
