package dev.starforge.model;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Ops;

/** Where attention finds keys and values. A model appends this step's and attends over what comes back. */
public interface KvCache {
    /** Keys and values in the layout that the batch's tables describe, this step's included, however they are kept. */
    interface Kv {
        /** Attention of q[N, H, D] over them. */
        Tensor attend(Ops ops, Tensor q, Batch batch, float scale, int window);
    }

    Kv append(Ops ops, int layer, Tensor k, Tensor v, Batch batch);

    /** Whether it keeps latents, one row for all heads, from which keys and values are read alike. */
    default boolean latent() {
        return false;
    }

    /** No memory of earlier steps: each sequence begins in this one. What training uses, so that gradients flow. */
    KvCache NONE = (ops, layer, k, v, batch) -> (o, q, b, scale, window) -> o.attend(q, k, v, b, scale, window);
}
