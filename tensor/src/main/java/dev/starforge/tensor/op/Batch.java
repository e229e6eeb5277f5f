package dev.starforge.tensor.op;

import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;

/**
 * One ragged step: the tokens of S sequences laid end to end. A [B, T] batch, packed training documents and a mix of
 * prompts and single decoded tokens are all this. Every component is device data, so that one captured step serves any
 * content of the same size.
 *
 * @param ids i32[N], the tokens
 * @param positions i32[N], each token's position in its sequence
 * @param starts i32[S + 1], where each sequence's tokens begin in this step
 * @param slots i32[N], the cache row each token's key and value go to
 * @param tables i32[S, M], the cache blocks of each sequence in order
 * @param block rows in a cache block
 * @param rows i32[R], ascending: the tokens whose logits are wanted
 * @param adapters i32[S], which adapter of its table the model adds for each sequence; {@link #BASE} or another negative
 *     number for none. A model that was loaded with one adapter, or without, has no table and nothing to look up
 * @param rowAdapters i32[N], the same for each token
 * @param regime which of the model's rotary tables holds for these lengths; sequences of two regimes do not share a step
 */
public record Batch(
        Tensor ids,
        Tensor positions,
        Tensor starts,
        Tensor slots,
        Tensor tables,
        int block,
        Tensor rows,
        Tensor adapters,
        Tensor rowAdapters,
        int regime) {
    /** The adapter of a sequence that has none. */
    public static final int BASE = -1;

    public Batch {
        long n = ids.shape().size();
        if (positions.shape().size() != n
                || slots.shape().size() != n
                || rows.shape().size() > n
                || starts.shape().size() != tables.dim(0) + 1
                || adapters.shape().size() != tables.dim(0)
                || rowAdapters.shape().size() != n
                || block < 1) {
            throw new ShapeException(
                    "Batch: ids " + ids + ", positions " + positions + ", starts " + starts + ", slots " + slots
                            + ", tables " + tables + ", block " + block + ", rows " + rows + ", adapters "
                            + adapters + ", of rows " + rowAdapters + " do not fit together");
        }
    }

    public long tokens() {
        return ids.shape().size();
    }

    /** The rows of x[N, C] whose logits are wanted. */
    public Tensor wanted(Ops ops, Tensor x) {
        return rows.shape().size() == tokens() ? x : ops.run(new Plain.Gather(), x, rows);
    }
}
