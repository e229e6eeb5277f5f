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
 * Who holds which block of the KV cache: paging with reference counts and copy on write (Kwon et al. 2023), and prefixes
 * shared between requests. It knows tokens and block numbers only; keys and values lie in tensors elsewhere, and the
 * owner does on the device what this class says. For one thread.
 *
 * <p>A block is free, held by sequences, or cached: published in the {@link PrefixIndex} and held by nobody, to be found
 * by a later prompt or evicted when a sequence needs it. Rows that others may read are never written: a sequence that
 * goes on inside a block which is also another's, or published, goes on in a copy. When two sequences computed the same
 * prefix side by side, the second to publish takes the first one's blocks and gives its own back.
 *
 * <p>A step is: append for each sequence in it, carry out the copies in the order they were given, then write the new
 * rows. A copied block may have been evicted and be the target of a later copy or write of the same step, which is why
 * the order matters. A copy is carried out even if the step is then given up and its sequences are truncated. All else
 * (fork, publish, truncate, release, close, open) happens between steps; on a device that runs what it is asked for in order,
 * a step is over for this class as soon as it was launched.
 *
 * <p>One pool is one group of layers with one table, since a {@link dev.starforge.tensor.op.Batch} has one: a window frees
 * blocks only where every layer has one (Mistral, Phi-3, StarCoder2), and where some layers see everything (Qwen2 with
 * max_window_layers) nothing is freed early. Models that alternate would want a pool per group, and a table per group in
 * the batch.
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

    /** Rows to copy on the device: the first {@code rows} of block {@code from} to block {@code to}. */
    public record BlockCopy(int from, int to, int rows) {}

    /** Where appended tokens go: the cache row of each, and what must be copied before they are written. */
    public record SlotAllocation(int[] slots, Optional<BlockCopy> copy) {}

    /**
     * Blocks as they are, and tokens and blocks counted since the beginning.
     *
     * @param queries tokens of prompts that were looked up
     * @param hits those of them that were found
     * @param evictions cached blocks that were given up for others
     */
    public record BlockPoolStats(int free, int held, int cached, long queries, long hits, long evictions) {}

    /** A pool of {@code blocks} blocks of {@code blockSize} rows for layers that share a table. */
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
     * A sequence that begins with as many of the prompt's tokens as are cached in full blocks; the owner appends the rest.
     *
     * @param compute how many tokens at the end must be left to compute: 1 where the next token is wanted, 0 where the
     *     prompt is only to be cached, all of them where each one's logits are wanted
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

    /** Of a block and those that follow it, the cached become free and the held are their sequences' own. */
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

    /** The first position that a token at {@code position} sees. */
    private int windowStart(int position) {
        return window == 0 ? 0 : Math.max(0, position - window + 1);
    }

    /** Tokens of one text and the blocks that hold their keys and values, from the first position on. */
    public final class BlockTable implements AutoCloseable {
        private final PrefixRoot root;
        /** Block of each {@code blockSize} positions, {@link #RELEASED} where the window has left it behind. */
        final List<Integer> blocks = new ArrayList<>();
        /** The first blocks of the table as they are published. */
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

        /** The blocks in order, for attention to read through. A released one is 0: a row to mask, and finite like any. */
        public int[] blocks() {
            int[] numbers = new int[blocks.size()];
            for (int i = 0; i < numbers.length; i++) {
                numbers[i] = Math.max(0, blocks.get(i));
            }
            return numbers;
        }

        /** How many blocks the table has. */
        public int size() {
            return blocks.size();
        }

        /** How many blocks at the front the window has left behind. */
        public int released() {
            return released;
        }

        /**
         * Makes room for more tokens.
         *
         * @throws OutOfBlocksException when free and cached blocks are too few; nothing has changed then
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
         * Makes the last block writable where it is partly full, given that so many fresh ones will be taken after. Where
         * there is no block left for a copy and nobody else holds it, it is unpublished instead: a sequence that is alone
         * never needs more blocks than it has tokens for.
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

        /** Another sequence with the same tokens in the same blocks; whichever goes on first inside a block copies it. */
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
         * Lets others find the full blocks; their rows must have been written. Stops where the prefix is not published any
         * more, as can happen to one that the window released.
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

        /** Cuts the sequence back to its first tokens, as after drafts that were not accepted. */
        public void truncate(int to) {
            requireOpen("truncate");
            if (to < 0 || to > length || released * blockSize > windowStart(to)) {
                throw new IllegalArgumentException("truncate: expected a length up to " + length
                        + " whose next token sees nothing before position " + released * blockSize
                        + ", which was released; got " + to);
            }
            int kept = blocksFor(to);
            releaseBlocks(kept, blocks.size());
            blocks.subList(kept, blocks.size()).clear();
            if (chain.size() > to / blockSize) {
                chain.subList(to / blockSize, chain.size()).clear();
            }
            length = to;
        }

        /** Gives back the blocks that lie wholly before a position, when no token to come sees beyond it. */
        public void releaseBefore(int position) {
            requireOpen("releaseBefore");
            if (position < 0 || position > windowStart(length)) {
                throw new IllegalArgumentException("releaseBefore: expected 0 to " + windowStart(length)
                        + ", the first position that the next token sees, got " + position);
            }
            int until = Math.max(released, position / blockSize);
            releaseBlocks(released, until);
            for (int i = released; i < until; i++) {
                blocks.set(i, RELEASED);
            }
            released = until;
        }

        /** Gives back the blocks that no token to come sees, even if the last {@code cut} tokens are cut off again. */
        public void releaseOutsideWindow(int cut) {
            releaseBefore(windowStart(Math.max(0, length - cut)));
        }

        /** Gives all blocks back; those that were published stay cached. */
        @Override
        public void close() {
            if (!closed) {
                releaseBlocks(released, blocks.size());
                closed = true;
            }
        }

        /** Those that stay cached are now the most recently used, with their prefix. */
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
                throw new IllegalStateException(operation + ": the sequence was closed");
            }
        }
    }
}
