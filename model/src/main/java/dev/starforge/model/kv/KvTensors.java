package dev.starforge.model.kv;

import dev.starforge.model.KvCache;
import dev.starforge.model.KvCacheSpec;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Ops;
import java.util.ArrayList;
import java.util.List;

/**
 * The tensors of a paged KV cache: rows of keys and values for each layer, in the blocks that {@link BlockPool} allocates. One
 * extra block is the padding block: padding rows of a batch write to it and attend to it only. Memory is initialized to zero
 * and stays finite, since attention multiplies masked rows by zero.
 */
public final class KvTensors implements KvCache {
    private final List<KvBuffer> keys = new ArrayList<>();
    private final List<KvBuffer> values = new ArrayList<>();
    private final int blocks;
    private final int blockSize;
    private final boolean latent;

    public KvTensors(List<KvCacheSpec> layers, int blocks, int blockSize, DType type, Scope scope) {
        this.blocks = blocks;
        this.blockSize = blockSize;
        latent = layers.stream().allMatch(KvCacheSpec::latent);
        long rows = (blocks + 1L) * blockSize;
        for (KvCacheSpec layer : layers) {
            Shape shape = Shape.of(rows, layer.kvHeads(), layer.headDim());
            keys.add(KvBuffer.allocate(scope, type, shape));
            values.add(layer.latent() ? keys.getLast() : KvBuffer.allocate(scope, type, shape));
        }
    }

    /** Returns the number of the padding block. */
    public int paddingBlock() {
        return blocks;
    }

    public int blockSize() {
        return blockSize;
    }

    /** Returns the bytes of one block in all layers. */
    public static long blockBytes(List<KvCacheSpec> layers, int blockSize, DType type) {
        return layers.stream()
                .mapToLong(layer -> (layer.latent() ? 1 : 2)
                        * KvBuffer.bytes(type, (long) blockSize * layer.kvHeads(), layer.headDim()))
                .sum();
    }

    /** Performs copies in order: one may read the target of another. */
    public void copy(Ops ops, List<BlockPool.BlockCopy> copies) {
        for (BlockPool.BlockCopy copy : copies) {
            ops.scope().within(() -> {
                long from = (long) copy.from() * blockSize;
                Tensor to = rows(ops, copy.to(), copy.rows());
                for (int layer = 0; layer < keys.size(); layer++) {
                    move(ops, keys.get(layer), from, to);
                    if (!latent) {
                        move(ops, values.get(layer), from, to);
                    }
                }
                return copy;
            });
        }
    }

    private Tensor rows(Ops ops, int block, int count) {
        int[] rows = new int[count];
        for (int i = 0; i < count; i++) {
            rows[i] = block * blockSize + i;
        }
        Tensor tensor = ops.scope().allocate(Spec.i32(count));
        ops.scope().device().write(tensor, rows);
        return tensor;
    }

    private static void move(Ops ops, KvBuffer cache, long from, Tensor to) {
        ops.scope().within(() -> {
            cache.store(ops, to, cache.read(ops, from, to.dim(0)));
            return to.spec();
        });
    }

    @Override
    public boolean latent() {
        return latent;
    }

    @Override
    public Kv append(Ops ops, int layer, Tensor k, Tensor v, Batch batch) {
        KvBuffer cachedKeys = keys.get(layer);
        KvBuffer cachedValues = values.get(layer);
        cachedKeys.store(ops, batch.slots(), k);
        if (!latent) {
            cachedValues.store(ops, batch.slots(), v);
        }
        return (o, q, b, scale, window) -> KvBuffer.attend(o, q, cachedKeys, cachedValues, b, scale, window);
    }
}
