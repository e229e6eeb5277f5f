package dev.starforge.model.kv;

import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.SequencedSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The prefix cache's index: finds the block with given tokens after a given prefix. Keys and values depend on all tokens before
 * them, so the key of a block is its parent block and its own tokens; the parent of the first block is a {@link PrefixRoot}.
 * Parents are compared by identity and tokens one by one: with hashes alone, a collision would give one prompt the keys and
 * values of another. Identity also distinguishes a block from a later one in the same physical memory.
 *
 * <p>Two invariants hold after every operation. The whole prefix of a published block is published, so removing a block
 * removes its successors. Of two cached blocks (published, reference count 0) a successor is less recently used than its
 * parent, so LRU eviction takes leaves before their parents, one block at a time.
 */
final class PrefixIndex {
    /** The parent of a block: another block or the root. */
    sealed interface PrefixParent permits PrefixRoot, PublishedBlock {}

    record BlockKey(PrefixParent parent, IntBuffer tokens) {}

    /** A published block. */
    static final class PublishedBlock implements PrefixParent {
        private final BlockKey key;
        private final int block;
        final Set<PublishedBlock> children = new LinkedHashSet<>();
        private boolean published = true;

        private PublishedBlock(BlockKey key, int block) {
            this.key = key;
            this.block = block;
        }

        int block() {
            return block;
        }

        PrefixParent parent() {
            return key.parent;
        }

        boolean isPublished() {
            return published;
        }
    }

    final Map<BlockKey, PublishedBlock> entries = new HashMap<>();
    /** Least recently used first. */
    final SequencedSet<PublishedBlock> cached = new LinkedHashSet<>();

    private final @Nullable PublishedBlock[] byBlock;

    PrefixIndex(int blocks) {
        byBlock = new @Nullable PublishedBlock[blocks];
    }

    @Nullable
    PublishedBlock find(PrefixParent parent, int[] tokens, int from, int count) {
        return entries.get(new BlockKey(parent, IntBuffer.wrap(tokens, from, count)));
    }

    /** Returns the published entry of a block, or null. */
    @Nullable
    PublishedBlock of(int block) {
        return byBlock[block];
    }

    /** Publishes a held block; its key must be new. */
    PublishedBlock publish(PrefixParent parent, int[] tokens, int block) {
        PublishedBlock entry = new PublishedBlock(new BlockKey(parent, IntBuffer.wrap(tokens)), block);
        entries.put(entry.key, entry);
        byBlock[block] = entry;
        if (parent instanceof PublishedBlock before) {
            before.children.add(entry);
        }
        return entry;
    }

    /** Removes a block and all its successors from the index and returns them. */
    List<PublishedBlock> unpublish(PublishedBlock first) {
        List<PublishedBlock> chain = new ArrayList<>(List.of(first));
        for (int i = 0; i < chain.size(); i++) {
            chain.addAll(chain.get(i).children);
        }
        for (PublishedBlock entry : chain) {
            entries.remove(entry.key);
            cached.remove(entry);
            byBlock[entry.block] = null;
            entry.published = false;
        }
        if (first.parent() instanceof PublishedBlock before) {
            before.children.remove(first);
        }
        return chain;
    }

    /** Marks a block as cached: its reference count is now 0. */
    void cache(PublishedBlock entry) {
        cached.add(entry);
    }

    /** Marks a block as held: its reference count is above 0. */
    void hold(PublishedBlock entry) {
        cached.remove(entry);
    }

    /** Makes a block and its prefix the most recently used, the block before its parents. */
    void touch(PublishedBlock last) {
        for (PrefixParent each = last; each instanceof PublishedBlock entry; each = entry.parent()) {
            if (cached.remove(entry)) {
                cached.add(entry);
            }
        }
    }

    PublishedBlock leastRecentlyUsed() {
        return cached.getFirst();
    }
}
