package dev.starforge.model;

import dev.starforge.tensor.Batch;
import dev.starforge.tensor.Ops;
import dev.starforge.tensor.Tensor;

/** Where attention finds keys and values. A model appends this step's and attends over what comes back. */
public interface KvCache {
    /** Keys and values [R, heads, D] in the layout that the batch's tables describe, this step's included. */
    record Kv(Tensor k, Tensor v) {}

    Kv append(Ops ops, int layer, Tensor k, Tensor v, Batch batch);

    /** Whether it keeps latents, one row for all heads, from which keys and values are read alike. */
    default boolean latent() {
        return false;
    }

    /** No memory of earlier steps: each sequence begins in this one. What training uses, so that gradients flow. */
    KvCache NONE = (ops, layer, k, v, batch) -> new Kv(k, v);
}
