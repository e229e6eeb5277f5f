package dev.starforge.model;

import dev.starforge.tensor.Batch;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Ops;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.TensorException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/**
 * Keys and values in blocks of 16 rows that sequences take as they grow and give back when they end (Kwon et al. 2023).
 * Memory is zero at first and stays finite: attention multiplies masked rows by zero.
 */
public final class PagedKvCache implements KvCache {
    public static final int BLOCK = 16;

    private final List<Tensor> keys = new ArrayList<>();
    private final List<Tensor> values = new ArrayList<>();
    private final Deque<Integer> free = new ArrayDeque<>();
    private final boolean latent;

    public PagedKvCache(Model.Facts facts, int blocks, DType type, Scope scope) {
        latent = facts.latent();
        Spec spec = new Spec(type, Shape.of((long) blocks * BLOCK, facts.kvHeads(), facts.headDim()));
        ByteBuffer zeros = ByteBuffer.allocateDirect(Math.toIntExact(Math.min(spec.bytes(), 1 << 24)));
        for (int layer = 0; layer < facts.layers(); layer++) {
            keys.add(zero(scope, spec, zeros));
            values.add(facts.latent() ? keys.getLast() : zero(scope, spec, zeros));
        }
        for (int block = 0; block < blocks; block++) {
            free.add(block);
        }
    }

    private static Tensor zero(Scope scope, Spec spec, ByteBuffer zeros) {
        Tensor tensor = scope.allocate(spec);
        long size = spec.shape().size();
        long piece = zeros.capacity() / spec.dtype().bytes();
        for (long at = 0; at < size; at += piece) {
            long count = Math.min(piece, size - at);
            zeros.clear().limit((int) count * spec.dtype().bytes());
            scope.device().write(tensor.view(at, Shape.of(count)), zeros);
        }
        return tensor;
    }

    /** A sequence in the cache: which blocks, and how many positions are filled. */
    public final class Sequence implements AutoCloseable {
        private final List<Integer> blocks = new ArrayList<>();
        private int length;

        private Sequence() {}

        /** Makes room for {@code count} more positions and returns the cache rows they go to. */
        int[] grow(int count) {
            int needed = (length + count + BLOCK - 1) / BLOCK - blocks.size();
            if (needed > free.size()) {
                throw new TensorException("KV cache: " + count + " more positions need " + needed + " blocks, "
                        + free.size() + " are free");
            }
            for (int i = 0; i < needed; i++) {
                blocks.add(free.pop());
            }
            int[] rows = new int[count];
            for (int i = 0; i < count; i++) {
                rows[i] = blocks.get((length + i) / BLOCK) * BLOCK + (length + i) % BLOCK;
            }
            length += count;
            return rows;
        }

        int length() {
            return length;
        }

        List<Integer> blocks() {
            return List.copyOf(blocks);
        }

        /** Gives the blocks back. */
        @Override
        public void close() {
            free.addAll(blocks);
            blocks.clear();
            length = 0;
        }
    }

    public Sequence sequence() {
        return new Sequence();
    }

    public int freeBlocks() {
        return free.size();
    }

    @Override
    public boolean latent() {
        return latent;
    }

    @Override
    public Kv append(Ops ops, int layer, Tensor k, Tensor v, Batch batch) {
        ops.store(keys.get(layer), batch.slots(), k);
        if (!latent) {
            ops.store(values.get(layer), batch.slots(), v);
        }
        return new Kv(keys.get(layer), values.get(layer));
    }
}
