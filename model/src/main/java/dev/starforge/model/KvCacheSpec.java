package dev.starforge.model;

import java.util.List;

/**
 * What one layer keeps of each position. Layers may differ; those that read through one block table are a group, and a
 * group gives a block back only when none of its layers will read it again.
 *
 * @param kvHeads heads of keys, and of values
 * @param headDim elements of a head
 * @param window how many positions a token sees, itself included; 0 is all of them
 * @param latent whether values are part of the cached keys, as in multi-head latent attention
 */
public record KvCacheSpec(int kvHeads, int headDim, int window, boolean latent) {
    public KvCacheSpec {
        if (kvHeads < 1 || headDim < 1 || window < 0) {
            throw new IllegalArgumentException(
                    "layer cache: expected heads and head dim of at least 1 and a window of 0 " + "or more, got "
                            + kvHeads + ", " + headDim + " and " + window);
        }
    }

    /** The window of a group: the largest of its layers, or 0 when one of them sees everything. */
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
