package dev.starforge.cpu.attention;

import dev.starforge.cpu.core.Exp;
import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.elementwise.Elementwise;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.op.Operands.AttentionInputs;
import dev.starforge.tensor.op.Operands.MaskInputs;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Attention in tiles with a running softmax (Dao et al. 2022), so that no matrix of scores ever exists.
 *
 * <p>Lanes are dimensions of a head. A tile is 64 keys of a sequence, gathered from the cache blocks and widened to
 * float32 once for all queries and grouped heads of a chunk. {@link HeadTile} computes scores (QK^T) and weighted sums (PV)
 * with an online softmax along the keys. Keys are split into runs of 512 with their own softmax state, as in flash-decoding,
 * and the splits are merged from first to last. Tiles and splits begin at multiples of their length, so the order of
 * summation of a query depends on its position only: not on the other queries, the blocks of the cache, the vector width or
 * the threads. In prefill a chunk loops over its splits; in decode, with few chunks, each split is a chunk of its own and a
 * second pass merges them. The results are bit-equal.
 *
 * <p>Four query rows, as one token has with four heads per KV head, read an fp16 cache without widening it first
 * ({@link F16Tile}).
 */
public final class Attention extends AttentionLayout {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;

    /** Keys of a split, which has its own softmax state; a multiple of {@link HeadTile#KEYS}. */
    private static final int KEYS_PER_SPLIT = 512;

    /** Query rows (queries times heads of a group) that share a tile of keys and values, approximately. */
    private static final int QUERY_ROWS_PER_TILE = 32;

    /** Up to this number of chunks (queries times KV heads), each split of the keys is a chunk of its own. */
    private static final int SPLIT_MAX_CHUNKS = 64;

    /** From this number of splits on, KV heads of up to MAX_GROUPED_ELEMENTS adjacent elements share a chunk and its cache lines. */
    private static final int MIN_SPLITS_TO_GROUP_HEADS = 8;

    private static final int MAX_GROUPED_ELEMENTS = 1024;

    private final int width; // d, for whole vectors of any machine
    private final int queriesPerChunk; // queries of a chunk
    private final int splits; // of the longest sequence that a block table holds
    private final int headGroups; // groups of heads of a chunk

    public Attention(float scale, int window, int block, Shape q, Shape k, Shape tables) {
        super(scale, window, block, q, k);
        width = Lanes.pad(Math.max(1, d), HeadTile.WIDTH);
        queriesPerChunk = Math.max(1, QUERY_ROWS_PER_TILE / Math.max(1, group));
        splits = Math.toIntExact(Workers.count(tables.dim(1) * block, KEYS_PER_SPLIT));
        headGroups = isSplit() && splits >= MIN_SPLITS_TO_GROUP_HEADS
                ? Math.clamp(MAX_GROUPED_ELEMENTS / Math.max(1, d), 1, kvHeads)
                : 1;
    }

    private boolean isSplit() {
        return tokens * kvHeads <= SPLIT_MAX_CHUNKS;
    }

    /** The shared part is a softmax state for each query and split, if splits are chunks. */
    public Scratch scratch() {
        long rows = (long) queriesPerChunk * group;
        long states = isSplit() ? tokens * heads * splits * (width + 2) : 0;
        long queries = headGroups * (rows + HeadTile.ROWS) * width + (headGroups + 1) * rows * (width + 2);
        long tile = 2L * HeadTile.KEYS * width + rows * (HeadTile.KEYS + W);
        return new Scratch(states, queries + tile + HeadTile.SCRATCH + 2 * W);
    }

    public void run(Workers workers, AttentionInputs<View> in, View[] out) {
        WorkItems items = queryWorkItems(in.starts(), queriesPerChunk);
        if (!isSplit()) {
            workers.run(items.size() * kvHeads, (chunk, s, at) -> {
                QueryChunk c = chunk(in, items, chunk, at);
                loadQueries(in, c, s);
                boolean first = true;
                for (int split = c.first / KEYS_PER_SPLIT; split <= c.last / KEYS_PER_SPLIT; split++) {
                    attend(in, c, split, s, first ? c.state : c.other);
                    if (!first) {
                        for (int r = 0; r < c.rows; r++) {
                            mergeSplit(s, c.state + r * (width + 2), c.other + r * (width + 2), c.strip);
                        }
                    }
                    first = false;
                }
                writeOutput(out, c, s);
            });
            return;
        }
        long parts = Workers.count(kvHeads, headGroups);
        workers.run(items.size() * splits * parts, (index, s, at) -> {
            long block = index / parts; // heads of one split are consecutive because they are adjacent in memory
            int kvHead = (int) (index % parts) * headGroups;
            QueryChunk c = chunk(in, items, block / splits * kvHeads + kvHead, at);
            c.groups = Math.min(headGroups, kvHeads - kvHead);
            int split = (int) (block % splits);
            if (split >= c.first / KEYS_PER_SPLIT && split <= c.last / KEYS_PER_SPLIT) {
                loadQueries(in, c, s);
                attend(in, c, split, s, c.state);
                for (int r = 0; r < c.groups * c.rows; r++) {
                    int to = state(row(c.n, kvHead + r / c.rows, r % c.rows), split);
                    System.arraycopy(s, c.state + r * (width + 2), s, to, width + 2);
                }
            }
        });
        workers.run(items.size() * kvHeads, (chunk, s, at) -> {
            QueryChunk c = chunk(in, items, chunk, at);
            for (int r = 0; r < c.rows; r++) {
                int to = c.state + r * (width + 2);
                long row = row(c.n, c.kvHead, r);
                System.arraycopy(s, state(row, c.first / KEYS_PER_SPLIT), s, to, width + 2);
                for (int split = c.first / KEYS_PER_SPLIT + 1; split <= c.last / KEYS_PER_SPLIT; split++) {
                    mergeSplit(s, to, state(row, split), c.strip);
                }
            }
            writeOutput(out, c, s);
        });
    }

    /** Offset of the state of a row and split in the shared scratch. */
    private int state(long row, int split) {
        return (int) ((row * splits + split) * (width + 2));
    }

    /**
     * Consecutive queries of one sequence and one group of heads, and the offsets of their data in the worker's scratch. The
     * softmax state of a row is its weighted sum of values, the maximum of its scores and the sum of its weights.
     */
    private static final class QueryChunk {
        private int sequence;
        private int n;
        private int kvHead;
        private int groups = 1; // of heads, from kvHead on
        private int rows; // of a group
        private int first; // key that any of the queries sees
        private int last;
        private int q;
        private int scaledQueries; // queries, if f16
        private boolean f16; // whether F16Tile computes
        private int state;
        private int other;
        private int k;
        private int v;
        private int scores;
        private int rescale;
        private int strip;
    }

    private QueryChunk chunk(AttentionInputs<View> in, WorkItems items, long index, int at) {
        QueryChunk c = new QueryChunk();
        int item = (int) (index / kvHeads);
        c.sequence = items.sequence()[item];
        c.n = items.from()[item];
        int end = Math.min(c.n + queriesPerChunk, in.starts().index(c.sequence + 1));
        c.kvHead = (int) (index % kvHeads);
        c.rows = (end - c.n) * group;
        c.first = firstKey(in.positions(), c.n, end);
        c.last = lastKey(in.positions(), c.n, end);
        int maxRows = queriesPerChunk * group;
        c.q = at;
        c.scaledQueries = c.q + headGroups * maxRows * width;
        c.state = c.scaledQueries + headGroups * HeadTile.ROWS * width;
        c.other = c.state + headGroups * maxRows * (width + 2);
        c.k = c.other + maxRows * (width + 2);
        c.v = c.k + HeadTile.KEYS * width;
        c.scores = c.v + HeadTile.KEYS * width;
        c.rescale = c.scores + maxRows * HeadTile.KEYS;
        c.strip = c.rescale + maxRows * W;
        return c;
    }

    /** Loads the queries of a chunk, scaled and padded with zeros. */
    private void loadQueries(AttentionInputs<View> in, QueryChunk c, float[] s) {
        for (int r = 0; r < c.groups * c.rows; r++) {
            int to = c.q + r * width;
            in.q().load(row(c.n, c.kvHead + r / c.rows, r % c.rows) * d, d, s, to);
            Arrays.fill(s, to + d, to + width, 0);
            scale(s, to, width, scale);
        }
        c.f16 = scaleForF16(in, c, s);
    }

    /** Loads the queries times 2^112 for {@link F16Tile}; returns false if it cannot be used. */
    private boolean scaleForF16(AttentionInputs<View> in, QueryChunk c, float[] s) {
        if (c.rows != HeadTile.ROWS || d != width || in.k().dtype != DType.F16 || in.v().dtype != DType.F16) {
            return false;
        }
        FloatVector max = FloatVector.zero(SPECIES);
        for (int i = 0; i < c.groups * c.rows * width; i += W) {
            FloatVector large = FloatVector.fromArray(SPECIES, s, c.q + i).mul(HeadTile.TWO_TO_112);
            large.intoArray(s, c.scaledQueries + i);
            max = max.max(large.abs());
        }
        return max.reduceLanes(VectorOperators.MAX) < Float.POSITIVE_INFINITY;
    }

    /** Computes the softmax states of a chunk's rows over the keys of one split. */
    private void attend(AttentionInputs<View> in, QueryChunk c, int split, float[] s, int state) {
        for (int r = 0; r < c.groups * c.rows; r++) {
            int y = state + r * (width + 2);
            Arrays.fill(s, y, y + width, 0);
            s[y + width] = Float.NEGATIVE_INFINITY;
            s[y + width + 1] = 0;
        }
        int end = Math.min(c.last + 1, (split + 1) * KEYS_PER_SPLIT);
        int next;
        for (int t = Math.max(c.first, split * KEYS_PER_SPLIT); t < end; t = next) {
            next = Math.min(end, (t / HeadTile.KEYS + 1) * HeadTile.KEYS);
            if (c.groups > 1) {
                prefetch(in.k(), in.tables(), c, t, next, s);
                prefetch(in.v(), in.tables(), c, t, next, s);
            }
            int start = t % HeadTile.KEYS;
            for (int kv = 0; kv < c.groups; kv++) {
                int y = state + kv * c.rows * (width + 2);
                if (!c.f16 || !scoresF16(in.k(), in.tables(), c, kv, t, next, s)) {
                    loadTile(in, false, c, kv, t, next, s, c.k + start * width);
                    HeadTile.scores(s, c.q + kv * c.rows * width, c.k, width, c.rows, c.scores, c.strip);
                }
                onlineSoftmax(in.positions(), c, t, next, s, y);
                if (!c.f16 || !addValuesF16(in.v(), in.tables(), c, kv, t, next, s, y)) {
                    loadTile(in, true, c, kv, t, next, s, c.v + start * width);
                    HeadTile.ValueTile values = new HeadTile.ValueTile(c.v, width, start, start + next - t);
                    HeadTile.addWeightedValues(s, c.scores, values, c.rows, c.rescale, y, width + 2);
                }
            }
        }
    }

    private boolean scoresF16(View k, View tables, QueryChunk c, int kv, int t, int next, float[] s) {
        int q = c.scaledQueries + kv * c.rows * width;
        int at = c.k + t % HeadTile.KEYS * HeadTile.CHAINS;
        boolean finite = true;
        int end;
        for (int i = t; i < next; i = end) {
            end = contiguousEnd(tables, c.sequence, i, next);
            long from = 2 * key(tables, c.sequence, i, c.kvHead + kv);
            finite &= F16Tile.chains(k.segment, from, end - i, 2 * kvHeads * d, s, q, width, at);
            at += (end - i) * HeadTile.CHAINS;
        }
        if (finite) {
            HeadTile.foldChains(s, c.k, c.scores);
        }
        return finite;
    }

    private boolean addValuesF16(View v, View tables, QueryChunk c, int kv, int t, int next, float[] s, int y) {
        scale(s, c.scores, c.rows * HeadTile.KEYS, HeadTile.TWO_TO_112);
        Arrays.fill(s, c.v, c.v + c.rows * width, 0);
        int w = c.scores + t % HeadTile.KEYS;
        boolean finite = true;
        int end;
        for (int i = t; i < next; i = end) {
            end = contiguousEnd(tables, c.sequence, i, next);
            long from = 2 * key(tables, c.sequence, i, c.kvHead + kv);
            finite &= F16Tile.sums(v.segment, from, end - i, 2 * kvHeads * d, s, w, width, c.v);
            w += end - i;
        }
        if (!finite) {
            scale(s, c.scores, c.rows * HeadTile.KEYS, 1 / HeadTile.TWO_TO_112);
            return false;
        }
        for (int r = 0; r < c.rows; r++) {
            FloatVector factor = FloatVector.broadcast(SPECIES, s[c.rescale + r]);
            int to = y + r * (width + 2);
            for (int i = 0; i < width; i += W) {
                FloatVector sum = FloatVector.fromArray(SPECIES, s, c.v + r * width + i);
                FloatVector.fromArray(SPECIES, s, to + i).fma(factor, sum).intoArray(s, to + i);
            }
        }
        return true;
    }

    /** Prefetches the cache lines of a chunk's heads in memory order. */
    private void prefetch(View x, View tables, QueryChunk c, int t, int next, float[] s) {
        int lines = 0;
        for (int i = t; i < next; i++) {
            lines += HeadTile.prefetch(x, key(tables, c.sequence, i, c.kvHead), c.groups * d);
        }
        s[c.strip] = lines; // keeps the reads alive
    }

    /** Turns scores into weights relative to the running maximum, updates the sums, and computes the rescale factors. */
    private void onlineSoftmax(View positions, QueryChunk c, int t, int next, float[] s, int state) {
        int tile = t / HeadTile.KEYS * HeadTile.KEYS;
        for (int r = 0; r < c.rows; r++) {
            int x = c.scores + r * HeadTile.KEYS;
            int position = positions.index(c.n + r / group);
            int from = Math.max(t, first(window, position)) - tile;
            int to = Math.min(next, position + 1) - tile;
            Arrays.fill(s, x, x + Math.clamp(from, 0, HeadTile.KEYS), Float.NEGATIVE_INFINITY);
            Arrays.fill(s, x + Math.clamp(to, 0, HeadTile.KEYS), x + HeadTile.KEYS, Float.NEGATIVE_INFINITY);
            int max = state + r * (width + 2) + width;
            float oldMax = s[max];
            float newMax = Math.max(oldMax, max(s, x));
            float shift = newMax == Float.NEGATIVE_INFINITY ? 0 : newMax;
            Elementwise.affine(s, x, HeadTile.KEYS, 1, -shift);
            s[max] = newMax;
            s[c.rescale + r] = oldMax - shift;
        }
        Exp.run(s, c.scores, c.rows * HeadTile.KEYS);
        Exp.run(s, c.rescale, c.rows);
        for (int r = 0; r < c.rows; r++) {
            int sum = state + r * (width + 2) + width + 1;
            int x = c.scores + r * HeadTile.KEYS;
            s[sum] = Math.fma(s[sum], s[c.rescale + r], HeadTile.sum(s, x, c.strip));
        }
    }

    private static float max(float[] s, int x) {
        FloatVector max = FloatVector.fromArray(SPECIES, s, x);
        for (int i = W; i < HeadTile.KEYS; i += W) {
            max = max.max(FloatVector.fromArray(SPECIES, s, x + i));
        }
        return max.reduceLanes(VectorOperators.MAX);
    }

    /** Merges the softmax state at {@code other} into the one at {@code y}. */
    private void mergeSplit(float[] s, int y, int other, int strip) {
        float more = s[other + width];
        if (more == Float.NEGATIVE_INFINITY) {
            return;
        }
        float oldMax = s[y + width];
        float newMax = Math.max(oldMax, more);
        s[strip] = oldMax - newMax;
        s[strip + 1] = more - newMax;
        Exp.run(s, strip, 2);
        float f = s[strip];
        float g = s[strip + 1];
        for (int i = 0; i < width; i += W) {
            FloatVector added = FloatVector.fromArray(SPECIES, s, other + i).mul(g);
            FloatVector.fromArray(SPECIES, s, y + i)
                    .fma(FloatVector.broadcast(SPECIES, f), added)
                    .intoArray(s, y + i);
        }
        s[y + width] = newMax;
        s[y + width + 1] = Math.fma(s[y + width + 1], f, s[other + width + 1] * g);
    }

    private void writeOutput(View[] out, QueryChunk c, float[] s) {
        for (int r = 0; r < c.rows; r++) {
            int y = c.state + r * (width + 2);
            float sum = s[y + width + 1];
            for (int i = 0; i < width; i += W) {
                FloatVector.fromArray(SPECIES, s, y + i).div(sum).intoArray(s, y + i);
            }
            long row = row(c.n, c.kvHead, r);
            out[0].store(row * d, d, s, y);
            out[1].set(row, (float) (s[y + width] + StrictMath.log(sum)));
        }
    }

    /** Returns the end of the keys that are contiguous in the cache from position t on, at most {@code next}. */
    private int contiguousEnd(View tables, long sequence, int t, int next) {
        long table = sequence * tables.last;
        int i = t / block;
        do {
            i++;
        } while (i * block < next && tables.index(table + i) == tables.index(table + i - 1) + 1);
        return Math.min(next, i * block);
    }

    /** Loads keys or values t..next-1 of a sequence, padded with zeros to the row width. */
    private void loadTile(
            AttentionInputs<View> in, boolean values, QueryChunk c, int kv, int t, int next, float[] s, int to) {
        View tables = in.tables();
        View x = values ? in.v() : in.k();
        int at = to;
        int end;
        for (int i = t; i < next; i = end) {
            end = contiguousEnd(tables, c.sequence, i, next);
            long from = key(tables, c.sequence, i, c.kvHead + kv);
            HeadTile.load(x, from, end - i, kvHeads * d, d, width, s, at);
            for (int row = 0; row < end - i && in.isInt8(); row++) {
                scale(
                        s,
                        at + row * width,
                        width,
                        (values ? in.vScales() : in.kScales()).at(from / d + (long) row * kvHeads));
            }
            at += (end - i) * width;
        }
    }

    /** scores[G, N, S * L]: row by row, -infinity except for the keys a query attends to. */
    public static void mask(Workers workers, int window, int block, MaskInputs<View> in, View y) {
        View starts = in.starts();
        long tokens = in.positions().size;
        long keys = in.tables().last * block; // L
        workers.rows(y.size == 0 ? 0 : y.rows, y.last, (row, s, at) -> {
            long n = row % tokens;
            int position = in.positions().index(n);
            for (long sequence = 0; sequence + 1 < starts.size; sequence++) {
                boolean own = n >= starts.index(sequence) && n < starts.index(sequence + 1);
                long first = own ? Math.min(keys, first(window, position)) : keys;
                long after = own ? Math.min(keys, position + 1L) : keys;
                long from = row * y.last + sequence * keys;
                fillMinusInfinity(y, from, first, s, at);
                in.scores().copy(from + first, y, from + first, after - first);
                fillMinusInfinity(y, from + after, keys - after, s, at);
            }
        });
    }

    private static void fillMinusInfinity(View y, long from, long count, float[] s, int at) {
        Arrays.fill(s, at, at + (int) Math.min(Scratch.STRIP, count), Float.NEGATIVE_INFINITY);
        for (long i = 0; i < count; i += Scratch.STRIP) {
            y.store(from + i, (int) Math.min(Scratch.STRIP, count - i), s, at);
        }
    }
}
