package dev.starforge.model.kv;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.op.Batch;
import dev.starforge.tensor.op.Ops;

/** A paged KV cache, storage and block pool together, for plans and tests that build their batches themselves. */
public final class PagedKvCache implements KvCache {
    /** Tokens of a KV block. */
    public static final int BLOCK_SIZE = 16;

    private final BlockPool pool;
    private final KvTensors tensors;
    private final PrefixRoot root;

    public PagedKvCache(Model.ModelInfo facts, int blocks, DType type, Scope scope) {
        pool = new BlockPool(blocks, BLOCK_SIZE, facts.kvCacheSpecs());
        tensors = new KvTensors(facts.kvCacheSpecs(), blocks, BLOCK_SIZE, type, scope);
        root = new PrefixRoot("", 0, type, "");
    }

    public BlockPool.BlockTable openSequence() {
        return pool.open(root, new int[0], 0);
    }

    @Override
    public boolean latent() {
        return tensors.latent();
    }

    @Override
    public Kv append(Ops ops, int layer, Tensor k, Tensor v, Batch batch) {
        return tensors.append(ops, layer, k, v, batch);
    }
}
