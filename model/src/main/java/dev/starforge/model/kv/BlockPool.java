package dev.starforge.model.kv;

import dev.starforge.model.KvCacheSpec;
import dev.starforge.model.kv.PrefixIndex.PrefixParent;
import dev.starforge.model.kv.PrefixIndex.PublishedBlock;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Optional;

/**
 * Allocates the blocks of a paged KV cache: reference counts, copy on write (Kwon et al. 2023), and automatic prefix caching.
 * It handles tokens and block numbers only. The keys and values are in {@link KvTensors}; the caller performs the copies on
 * the device. Not thread-safe.
 *
 * <p>A block is free, held by sequences, or cached: published in the {@link PrefixIndex} with a reference count of 0, so that a
 * later prompt can reuse it and an allocation can evict it. A shared or published block is never written: a sequence that
 * appends to one continues in a copy. If two sequences compute the same prefix at the same time, the second to publish
 * switches to the blocks of the first and releases its own.
 *
 * <p>A step consists of: append for each sequence, perform the copies in the order they were returned, write the new rows. The
 * order matters because a copied block may be evicted and become the target of a later copy or write of the same step. Copies
 * are performed even if the step is then abandoned and its sequences are truncated. All other operations (fork, publish,
 * truncate, release, close, open) happen between steps. A device that executes in order may still be computing: for this class
 * a step ends when it is launched.
 *
 * <p>A pool serves one group of layers with a common block table, since a {@link dev.starforge.tensor.op.Batch} has one table. A
 * sliding window frees blocks only if every layer has one (Mistral, Phi-3, StarCoder2); if some layers have full attention
 * (Qwen2 with max_window_layers), no block is freed early. Models that alternate would need a pool and a table per group.
 */
public final class BlockPool {
    private static final int RELEASED = -1;

    private final int blockSize;
    private final int window;
    final int[] references;
    final Deque<Integer> free = new ArrayDeque<>();
    final PrefixIndex index;
    private long queries;
    private long hits;
    private long evictions;

    /** A copy to perform on the device: the first {@code rows} rows of block {@code from} to block {@code to}. */
    public record BlockCopy(int from, int to, int rows) {}

    /** The KV slots of appended tokens, and the copy to perform before they are written. */
    public record SlotAllocation(int[] slots, Optional<BlockCopy> copy) {}

    /**
     * The current number of free, held and cached blocks, and counters since the pool was created.
     *
     * @param queries prompt tokens looked up in the prefix cache
     * @param hits prompt tokens found in the prefix cache
     * @param evictions evicted blocks
     */
    public record BlockPoolStats(int free, int held, int cached, long queries, long hits, long evictions) {}

    /** Creates a pool of {@code blocks} blocks of {@code blockSize} rows for layers that share a block table. */
    public BlockPool(int blocks, int blockSize, List<KvCacheSpec> layers) {
        if (blocks < 1 || blockSize < 1 || layers.isEmpty() || (long) blocks * blockSize > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(
                    "block pool: expected at least one block, row and layer and fewer than 2^31 " + "rows, got "
                            + blocks + " blocks of " + blockSize + " rows for " + layers.size() + " layers");
        }
        this.blockSize = blockSize;
        window = KvCacheSpec.window(layers);
        references = new int[blocks];
        index = new PrefixIndex(blocks);
        for (int block = 0; block < blocks; block++) {
            free.add(block);
        }
    }

    /**
     * Opens a block table with the longest prefix of the prompt that is cached in full blocks. The caller appends the rest.
     *
     * @param compute the number of tokens at the end to leave uncached: 1 to get the logits of the next token, 0 to only cache
     *     the prompt, all to get the logits of every token
     */
    public BlockTable open(PrefixRoot root, int[] prompt, int compute) {
        if (compute < 0 || compute > prompt.length) {
            throw new IllegalArgumentException(
                    "open: expected 0 to " + prompt.length + " tokens of the prompt left to compute, got " + compute);
        }
        BlockTable sequence = new BlockTable(root);
        PrefixParent parent = root;
        for (int end = blockSize; end <= prompt.length - compute; end += blockSize) {
            PublishedBlock entry = index.find(parent, prompt, end - blockSize, blockSize);
            if (entry == null) {
                break;
            }
            hold(entry);
            sequence.blocks.add(entry.block());
            sequence.chain.add(entry);
            parent = entry;
        }
        sequence.length = sequence.blocks.size() * blockSize;
        sequence.tokens = Arrays.copyOf(prompt, sequence.length);
        queries += prompt.length;
        hits += sequence.length;
        return sequence;
    }

    public BlockPoolStats stats() {
        int cached = index.cached.size();
        return new BlockPoolStats(
                free.size(), references.length - free.size() - cached, cached, queries, hits, evictions);
    }

    private int available() {
        return free.size() + index.cached.size();
    }

    private int take() {
        if (free.isEmpty()) {
            unpublish(index.leastRecentlyUsed());
        }
        int block = free.pop();
        references[block] = 1;
        return block;
    }

    /** Removes a block and its successors from the index: cached ones become free, held ones private to their sequences. */
    private void unpublish(PublishedBlock first) {
        for (PublishedBlock entry : index.unpublish(first)) {
            if (references[entry.block()] == 0) {
                free.push(entry.block());
                evictions++;
            }
        }
    }

    private void hold(PublishedBlock entry) {
        if (references[entry.block()]++ == 0) {
            index.hold(entry);
        }
    }

    private void release(int block) {
        if (--references[block] == 0) {
            PublishedBlock entry = index.of(block);
            if (entry == null) {
                free.push(block);
            } else {
                index.cache(entry);
            }
        }
    }

    private int blocksFor(int positions) {
        return Math.ceilDiv(positions, blockSize);
    }

    /** Returns the first position in the attention window of a token at {@code position}. */
    private int windowStart(int position) {
        return window == 0 ? 0 : Math.max(0, position - window + 1);
    }

    /** The tokens of a sequence and the blocks with their keys and values. */
    public final class BlockTable implements AutoCloseable {
        private final PrefixRoot root;
        /** The block of each {@code blockSize} positions, or {@link #RELEASED} if it is outside the window. */
        final List<Integer> blocks = new ArrayList<>();
        /** The published blocks at the beginning of the table. */
        final List<PublishedBlock> chain = new ArrayList<>();

        private int[] tokens = {};
        private int length;
        private int released;
        private boolean closed;

        private BlockTable(PrefixRoot root) {
            this.root = root;
        }

        public int length() {
            return length;
        }

        public int[] tokens() {
            return Arrays.copyOf(tokens, length);
        }

        /** Returns the block numbers for attention. A released block is 0, whose rows are finite and masked. */
        public int[] blocks() {
            int[] numbers = new int[blocks.size()];
            for (int i = 0; i < numbers.length; i++) {
                numbers[i] = Math.max(0, blocks.get(i));
            }
            return numbers;
        }

        /** Returns the number of blocks. */
        public int size() {
            return blocks.size();
        }

        /** Returns the number of blocks at the front that are outside the window. */
        public int released() {
            return released;
        }

        /**
         * Allocates slots for more tokens.
         *
         * @throws OutOfBlocksException if there are too few free and cached blocks; nothing changes then
         */
        public SlotAllocation append(int... more) {
            requireOpen("append");
            if (more.length == 0) {
                throw new IllegalArgumentException("append: expected at least one token, got none");
            }
            int fresh = blocksFor(Math.addExact(length, more.length)) - blocks.size();
            Optional<BlockCopy> copy = makeLastWritable(fresh);
            for (int i = 0; i < fresh; i++) {
                blocks.add(take());
            }
            int[] rows = new int[more.length];
            for (int i = 0; i < rows.length; i++) {
                rows[i] = blocks.get((length + i) / blockSize) * blockSize + (length + i) % blockSize;
            }
            if (length + more.length > tokens.length) {
                tokens = Arrays.copyOf(tokens, Math.max(length + more.length, 2 * length));
            }
            System.arraycopy(more, 0, tokens, length, more.length);
            length += more.length;
            return new SlotAllocation(rows, copy);
        }

        /**
         * Makes a partly filled last block writable, before {@code fresh} blocks are allocated. If no block is left for a copy
         * and no other sequence holds it, the block is unpublished instead: a sequence that is alone never needs more blocks
         * than its tokens fill.
         */
        private Optional<BlockCopy> makeLastWritable(int fresh) {
            int rows = length % blockSize;
            int last = rows == 0 ? RELEASED : blocks.getLast();
            PublishedBlock entry = rows == 0 ? null : index.of(last);
            boolean shared = rows > 0 && references[last] > 1;
            int asked = fresh + (shared ? 1 : 0);
            if (asked > available()) {
                throw new OutOfBlocksException(asked, stats());
            }
            if (entry != null && !shared && fresh == available()) {
                unpublish(entry);
            } else if (entry != null || shared) {
                int copy = take();
                releaseBlocks(blocks.size() - 1, blocks.size());
                blocks.set(blocks.size() - 1, copy);
                return Optional.of(new BlockCopy(last, copy, rows));
            }
            return Optional.empty();
        }

        /** Returns a block table with the same tokens and blocks. The first of the two to append to a shared block copies it. */
        public BlockTable fork() {
            requireOpen("fork");
            BlockTable twin = new BlockTable(root);
            twin.blocks.addAll(blocks);
            twin.chain.addAll(chain);
            twin.tokens = tokens();
            twin.length = length;
            twin.released = released;
            for (int block : blocks.subList(released, blocks.size())) {
                references[block]++;
            }
            return twin;
        }

        /**
         * Publishes the full blocks in the prefix index; their rows must have been written. Stops if the prefix is no longer
         * published, which can happen to blocks outside the window.
         */
        public void publish() {
            requireOpen("publish");
            for (int i = chain.size(); i >= released && i < length / blockSize; i++) {
                PrefixParent parent = i == 0 ? root : chain.get(i - 1);
                if (parent instanceof PublishedBlock before && !before.isPublished()) {
                    return;
                }
                int own = blocks.get(i);
                PublishedBlock entry = index.find(parent, tokens, i * blockSize, blockSize);
                if (entry == null) {
                    entry = index.publish(parent, Arrays.copyOfRange(tokens, i * blockSize, (i + 1) * blockSize), own);
                } else if (entry.block() != own) {
                    hold(entry);
                    blocks.set(i, entry.block());
                    release(own);
                }
                chain.add(entry);
            }
        }

        /** Truncates the sequence to its first {@code to} tokens, for example after rejected draft tokens. */
        public void truncate(int to) {
            requireOpen("truncate");
            if (to < 0 || to > length || released * blockSize > windowStart(to)) {
                throw new IllegalArgumentException("truncate: expected a length up to " + length
                        + " whose window begins at or after position " + released * blockSize
                        + " (earlier blocks are released), got " + to);
            }
            int kept = blocksFor(to);
            releaseBlocks(kept, blocks.size());
            blocks.subList(kept, blocks.size()).clear();
            if (chain.size() > to / blockSize) {
                chain.subList(to / blockSize, chain.size()).clear();
            }
            length = to;
        }

        /** Releases the blocks that end before a position; the window of the next token must not begin before it. */
        public void releaseBefore(int position) {
            requireOpen("releaseBefore");
            if (position < 0 || position > windowStart(length)) {
                throw new IllegalArgumentException("releaseBefore: expected 0 to " + windowStart(length)
                        + ", the first position in the window of the next token, got " + position);
            }
            int until = Math.max(released, position / blockSize);
            releaseBlocks(released, until);
            for (int i = released; i < until; i++) {
                blocks.set(i, RELEASED);
            }
            released = until;
        }

        /** Releases the blocks outside the window of all future tokens, even if the last {@code cut} tokens are truncated. */
        public void releaseOutsideWindow(int cut) {
            releaseBefore(windowStart(Math.max(0, length - cut)));
        }

        /** Releases all blocks; published ones stay cached. */
        @Override
        public void close() {
            if (!closed) {
                releaseBlocks(released, blocks.size());
                closed = true;
            }
        }

        /** Releases blocks. Those that stay cached become the most recently used, with their prefix. */
        private void releaseBlocks(int from, int to) {
            PublishedBlock deepest = null;
            for (int block : blocks.subList(from, to)) {
                PublishedBlock entry = index.of(block);
                deepest = entry == null ? deepest : entry;
                release(block);
            }
            if (deepest != null) {
                index.touch(deepest);
            }
        }

        private void requireOpen(String operation) {
            if (closed) {
                throw new IllegalStateException(operation + ": the sequence is closed");
            }
        }
    }
}
