package dev.starforge.model.kv;

import dev.starforge.model.kv.BlockPool.BlockPoolStats;
import dev.starforge.model.kv.BlockPool.BlockTable;
import dev.starforge.model.kv.PrefixIndex.PrefixParent;
import dev.starforge.model.kv.PrefixIndex.PublishedBlock;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What must be true of a pool after every operation, given all sequences that are open. */
final class Invariants {
    private Invariants() {}

    static void check(BlockPool pool, Collection<BlockTable> open) {
        countHolders(pool, open);
        everyBlockIsOneOfThree(pool);
        everyEntryCanBeFound(pool.index);
        endsAreOlderThanTheirPrefix(pool.index);
    }

    private static void countHolders(BlockPool pool, Collection<BlockTable> open) {
        int[] holders = new int[pool.references.length];
        for (BlockTable sequence : open) {
            List<Integer> held = sequence.blocks.subList(sequence.released(), sequence.blocks.size());
            require(new HashSet<>(held).size() == held.size(), "a sequence has a block twice");
            held.forEach(block -> holders[block]++);
            for (int i = sequence.released(); i < sequence.chain.size(); i++) {
                PublishedBlock entry = sequence.chain.get(i);
                require(entry.block() == sequence.blocks.get(i), "a sequence holds another block than it published");
            }
        }
        for (int block = 0; block < holders.length; block++) {
            require(holders[block] == pool.references[block], "references differ from the holders");
        }
    }

    private static void everyBlockIsOneOfThree(BlockPool pool) {
        Set<Integer> free = new HashSet<>(pool.free);
        require(free.size() == pool.free.size(), "a block is free twice");
        int held = 0;
        for (int block = 0; block < pool.references.length; block++) {
            PublishedBlock entry = pool.index.of(block);
            boolean isHeld = pool.references[block] > 0;
            boolean isCached = entry != null && pool.index.cached.contains(entry);
            int states = (free.contains(block) ? 1 : 0) + (isHeld ? 1 : 0) + (isCached ? 1 : 0);
            require(states == 1, "a block is not exactly one of free, held and cached");
            require(entry == null || isHeld || isCached, "a free block is published");
            held += isHeld ? 1 : 0;
        }
        BlockPoolStats figures = pool.stats();
        require(figures.free() == free.size() && figures.held() == held, "figures differ from the blocks");
        require(figures.cached() == pool.references.length - free.size() - held, "figures differ from the blocks");
    }

    private static void everyEntryCanBeFound(PrefixIndex index) {
        Set<PublishedBlock> published = new HashSet<>(index.entries.values());
        int children = 0;
        int followers = 0;
        for (PublishedBlock entry : published) {
            require(entry.isPublished() && index.of(entry.block()) == entry, "the index names another block");
            children += entry.children.size();
            if (entry.parent() instanceof PublishedBlock parent) {
                require(published.contains(parent) && parent.children.contains(entry), "an entry has lost its parent");
                followers++;
            }
        }
        require(published.size() == index.entries.size(), "an entry has two keys");
        require(children == followers, "an entry has a child that is not published");
        require(published.containsAll(index.cached), "a cached block is not published");
    }

    private static void endsAreOlderThanTheirPrefix(PrefixIndex index) {
        Map<PrefixParent, Integer> rank = new HashMap<>();
        index.cached.forEach(entry -> rank.put(entry, rank.size()));
        for (PublishedBlock entry : index.cached) {
            for (PrefixParent each = entry.parent(); each instanceof PublishedBlock before; each = before.parent()) {
                require(
                        rank.getOrDefault(before, rank.size()) > rank.get(entry),
                        "a parent is evicted before its child");
            }
        }
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }
}
