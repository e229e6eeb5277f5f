package dev.starforge.text.bpe;

import dev.starforge.text.TokenIdList;
import dev.starforge.text.pretokenizer.PreTokenSink;
import java.util.Arrays;

/**
 * Encodes pre-tokens by merging adjacent symbols, the pair with the lowest rank first, the leftmost among equals. The
 * symbols of a word form a linked list; a heap of (rank, position) finds the next merge in logarithmic time, also for
 * very long words. Heap entries whose pair no longer exists are recognized by their rank. Encodings of short words are
 * cached in a direct-mapped table of fixed size.
 *
 * <p>An encoder is used by one thread; its vocabulary and merges are shared.
 */
public abstract class WordEncoder implements PreTokenSink {
    /** The result for a pair that does not merge. */
    static final long NONE = -1;

    private static final int CACHED_WORDS = 1 << 15;
    private static final int LONGEST_CACHED = 64;

    private final char[][] words = new char[CACHED_WORDS][];
    private final int[][] encodings = new int[CACHED_WORDS][];
    private TokenIdList out = new TokenIdList();

    private int count;
    private int[] ids = new int[64];
    private int[] starts = new int[64];
    private int[] ends = new int[64];
    private int[] previous = new int[64];
    private int[] next = new int[64];
    private int[] ranks = new int[64];
    private int[] merged = new int[64];
    private long[] heap = new long[64];
    private int heapSize;

    /** Splits a word into symbols with {@link #symbol}. */
    abstract void split(char[] text, int from, int to);

    /** Returns the merge of two symbols as (rank, id), or {@link #NONE}. */
    abstract long pair(int left, int right);

    /** Writes the tokens of a symbol after the last merge. */
    abstract void write(int symbol, TokenIdList out);

    public final void into(TokenIdList buffer) {
        out = buffer;
    }

    @Override
    public final void preToken(char[] text, int from, int to, boolean first) {
        if (to - from > LONGEST_CACHED) {
            encode(text, from, to);
            return;
        }
        int slot = Vocabulary.hash(text, from, to) & CACHED_WORDS - 1;
        char[] word = words[slot];
        if (word == null || !Arrays.equals(word, 0, word.length, text, from, to)) {
            int start = out.size();
            encode(text, from, to);
            words[slot] = Arrays.copyOfRange(text, from, to);
            encodings[slot] = out.from(start);
        } else {
            out.addAll(encodings[slot]);
        }
    }

    private void encode(char[] text, int from, int to) {
        count = 0;
        split(text, from, to);
        merge();
        for (int i = count > 0 ? 0 : -1; i >= 0; i = next[i]) {
            write(i, out);
        }
    }

    /** Appends a symbol that covers {@code start..end} of the text. */
    final void symbol(int id, int start, int end) {
        if (count == ids.length) {
            int more = 2 * count;
            ids = Arrays.copyOf(ids, more);
            starts = Arrays.copyOf(starts, more);
            ends = Arrays.copyOf(ends, more);
            previous = Arrays.copyOf(previous, more);
            next = Arrays.copyOf(next, more);
            ranks = Arrays.copyOf(ranks, more);
            merged = Arrays.copyOf(merged, more);
        }
        ids[count] = id;
        starts[count] = start;
        ends[count++] = end;
    }

    final int id(int symbol) {
        return ids[symbol];
    }

    final int start(int symbol) {
        return starts[symbol];
    }

    final int end(int symbol) {
        return ends[symbol];
    }

    private void merge() {
        heapSize = 0;
        for (int i = 0; i < count; i++) {
            previous[i] = i - 1;
            next[i] = i + 1 < count ? i + 1 : -1;
            offer(i);
        }
        while (heapSize > 0) {
            long top = poll();
            int left = (int) top;
            if (ranks[left] != (int) (top >>> 32)) {
                continue;
            }
            int right = next[left];
            ids[left] = merged[left];
            ends[left] = ends[right];
            next[left] = next[right];
            ranks[right] = -1;
            if (next[left] >= 0) {
                previous[next[left]] = left;
            }
            offer(left);
            if (previous[left] >= 0) {
                offer(previous[left]);
            }
        }
    }

    /** Adds the pair that begins at a symbol to the heap. */
    private void offer(int left) {
        int right = next[left];
        long pair = right < 0 ? NONE : pair(left, right);
        if (pair == NONE) {
            ranks[left] = -1;
            return;
        }
        ranks[left] = (int) (pair >>> 32);
        merged[left] = (int) pair;
        push(LongMap.pair(ranks[left], left));
    }

    private void push(long entry) {
        if (heapSize == heap.length) {
            heap = Arrays.copyOf(heap, 2 * heapSize);
        }
        int i = heapSize++;
        while (i > 0 && heap[i - 1 >> 1] > entry) {
            heap[i] = heap[i - 1 >> 1];
            i = i - 1 >> 1;
        }
        heap[i] = entry;
    }

    private long poll() {
        long top = heap[0];
        long last = heap[--heapSize];
        int i = 0;
        for (int child = 1; child < heapSize; child = 2 * i + 1) {
            if (child + 1 < heapSize && heap[child + 1] < heap[child]) {
                child++;
            }
            if (heap[child] >= last) {
                break;
            }
            heap[i] = heap[child];
            i = child;
        }
        heap[i] = last;
        return top;
    }
}
