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
 * Finds the block that holds given tokens after a given prefix. Keys and values depend on everything before them, so a
 * block's key is the published block before it and its own tokens; the first block follows a {@link PrefixRoot}. The
 * parent is compared as an object and tokens one by one: a hash alone would let a collision hand one prompt the keys and
 * values of another. An object also cannot be mistaken for a later one in the same physical block.
 *
 * <p>Two rules hold after every operation. What is published has all of its prefix published; so taking a block out takes
 * out what follows it, which nobody could find any more. And of two cached blocks (published, held by nobody) the one that
 * follows the other is the less recently used; so eviction, which takes the least recently used, takes leaves before their
 * parents and one block at a time.
 */
final class PrefixIndex {
    /** What the tokens of a block follow. */
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

    /** What a block is published as, if it is. */
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

    /** Takes a block and all that follow it out of the index; returns them. */
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

    /** Nobody holds it any more. */
    void cache(PublishedBlock entry) {
        cached.add(entry);
    }

    /** Somebody holds it again. */
    void hold(PublishedBlock entry) {
        cached.remove(entry);
    }

    /** To use a block is to use its prefix: what is cached of both becomes the most recently used, the end first. */
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
