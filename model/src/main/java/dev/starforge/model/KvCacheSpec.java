package dev.starforge.model;

import java.util.List;

/**
 * The KV cache of one layer. Layers with a common block table form a group; a block is freed when no layer of the group
 * attends to it any more.
 *
 * @param kvHeads heads of keys and of values
 * @param headDim elements of a head
 * @param window the sliding window in tokens, including the token itself; 0 is full attention
 * @param latent whether values are part of the cached keys, as in multi-head latent attention
 */
public record KvCacheSpec(int kvHeads, int headDim, int window, boolean latent) {
    public KvCacheSpec {
        if (kvHeads < 1 || headDim < 1 || window < 0) {
            throw new IllegalArgumentException(
                    "KV cache spec: expected heads and head dim of at least 1 and a window of at least 0, got "
                            + kvHeads + ", " + headDim + " and " + window);
        }
    }

    /** Returns the window of a group: the largest of its layers, or 0 if one of them has full attention. */
    public static int window(List<KvCacheSpec> group) {
        int largest = 0;
        for (KvCacheSpec layer : group) {
            if (layer.window == 0) {
                return 0;
            }
            largest = Math.max(largest, layer.window);
        }
        return largest;
    }
}
