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
 * <p>Lanes are dimensions of a head. A tile is 64 keys of a sequence, wherever the cache has them, widened to
 * float32 once for all queries and grouped heads of a chunk. Scores and weighted sums are {@link HeadTile}'s; maxima and sums
 * run along the keys. Tiles are gathered into stretches of 512 keys with a softmax of their own, and stretches are
 * combined from the first to the last. Tiles and stretches begin at multiples of their length, so the order of summation
 * of a query follows from its position alone: not from the other queries, the blocks of the cache, the width of the
 * machine or the threads. A prompt has chunks enough for all threads and walks through its stretches; where there are
 * few chunks, as for one token, every stretch is a chunk and the stretches meet in a second pass. The bits are the same.
 *
 * <p>Four rows, such as a token has for each key where heads come in groups of four, read a cache in float16 as it lies
 * there ({@link F16Tile}).
 */
public final class Attention extends AttentionLayout {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;

    /** Keys that a softmax runs over before it meets others; a multiple of {@link HeadTile#KEYS}. */
    private static final int STRETCH = 512;

    /** About how many queries, times heads of a group, share the keys and values of a tile. */
    private static final int SHARING = 32;

    /** With so many chunks, one for a group of heads, or fewer, stretches are chunks too. */
    private static final int FEW = 64;

    /** With so many stretches, heads that lie in so many neighbouring elements of a row share a chunk, and its cache lines. */
    private static final int MANY_STRETCHES = 8;

    private static final int TOGETHER = 1024;

    private final int width; // d, for whole vectors of any machine
    private final int sharing; // queries of a chunk
    private final int stretches; // that a table has room for
    private final int together; // groups of heads of a chunk

    public Attention(float scale, int window, int block, Shape q, Shape k, Shape tables) {
        super(scale, window, block, q, k);
        width = Lanes.pad(Math.max(1, d), HeadTile.WIDTH);
        sharing = Math.max(1, SHARING / Math.max(1, group));
        stretches = Math.toIntExact(Workers.count(tables.dim(1) * block, STRETCH));
        together = few() && stretches >= MANY_STRETCHES ? Math.clamp(TOGETHER / Math.max(1, d), 1, kvHeads) : 1;
    }

    private boolean few() {
        return tokens * kvHeads <= FEW;
    }

    /** Shared: a state for each query and stretch, where stretches are chunks. */
    public Scratch scratch() {
        long rows = (long) sharing * group;
        long states = few() ? tokens * heads * stretches * (width + 2) : 0;
        long queries = together * (rows + HeadTile.ROWS) * width + (together + 1) * rows * (width + 2);
        long tile = 2L * HeadTile.KEYS * width + rows * (HeadTile.KEYS + W);
        return new Scratch(states, queries + tile + HeadTile.SCRATCH + 2 * W);
    }

    public void run(Workers workers, AttentionInputs<View> in, View[] out) {
        Pieces pieces = queryPieces(in.starts(), sharing);
        if (!few()) {
            workers.run(pieces.size() * kvHeads, (chunk, s, at) -> {
                Chunk c = chunk(in, pieces, chunk, at);
                gather(in, c, s);
                boolean first = true;
                for (int stretch = c.first / STRETCH; stretch <= c.last / STRETCH; stretch++) {
                    attend(in, c, stretch, s, first ? c.state : c.other);
                    if (!first) {
                        for (int r = 0; r < c.rows; r++) {
                            combine(s, c.state + r * (width + 2), c.other + r * (width + 2), c.strip);
                        }
                    }
                    first = false;
                }
                deliver(out, c, s);
            });
            return;
        }
        long parts = Workers.count(kvHeads, together);
        workers.run(pieces.size() * stretches * parts, (index, s, at) -> {
            long block = index / parts; // heads of one stretch follow each other: they lie side by side
            int kvHead = (int) (index % parts) * together;
            Chunk c = chunk(in, pieces, block / stretches * kvHeads + kvHead, at);
            c.groups = Math.min(together, kvHeads - kvHead);
            int stretch = (int) (block % stretches);
            if (stretch >= c.first / STRETCH && stretch <= c.last / STRETCH) {
                gather(in, c, s);
                attend(in, c, stretch, s, c.state);
                for (int r = 0; r < c.groups * c.rows; r++) {
                    int to = state(row(c.n, kvHead + r / c.rows, r % c.rows), stretch);
                    System.arraycopy(s, c.state + r * (width + 2), s, to, width + 2);
                }
            }
        });
        workers.run(pieces.size() * kvHeads, (chunk, s, at) -> {
            Chunk c = chunk(in, pieces, chunk, at);
            for (int r = 0; r < c.rows; r++) {
                int to = c.state + r * (width + 2);
                long row = row(c.n, c.kvHead, r);
                System.arraycopy(s, state(row, c.first / STRETCH), s, to, width + 2);
                for (int stretch = c.first / STRETCH + 1; stretch <= c.last / STRETCH; stretch++) {
                    combine(s, to, state(row, stretch), c.strip);
                }
            }
            deliver(out, c, s);
        });
    }

    /** Where the state of a row and stretch is in what the workers share. */
    private int state(long row, int stretch) {
        return (int) ((row * stretches + stretch) * (width + 2));
    }

    /**
     * Some neighbouring queries of one sequence and one group of heads, and where a worker has what belongs to them. A state
     * is a row's weighted sum of values, the maximum of its scores and the sum of its weights.
     */
    private static final class Chunk {
        private int sequence;
        private int n;
        private int kvHead;
        private int groups = 1; // of heads, from kvHead on
        private int rows; // of a group
        private int first; // key that any of the queries sees
        private int last;
        private int q;
        private int large; // queries, if f16
        private boolean f16; // whether F16Tile computes
        private int state;
        private int other;
        private int k;
        private int v;
        private int scores;
        private int factors;
        private int strip;
    }

    private Chunk chunk(AttentionInputs<View> in, Pieces pieces, long index, int at) {
        Chunk c = new Chunk();
        int piece = (int) (index / kvHeads);
        c.sequence = pieces.sequence()[piece];
        c.n = pieces.from()[piece];
        int end = Math.min(c.n + sharing, in.starts().index(c.sequence + 1));
        c.kvHead = (int) (index % kvHeads);
        c.rows = (end - c.n) * group;
        c.first = firstKey(in.positions(), c.n, end);
        c.last = lastKey(in.positions(), c.n, end);
        int most = sharing * group;
        c.q = at;
        c.large = c.q + together * most * width;
        c.state = c.large + together * HeadTile.ROWS * width;
        c.other = c.state + together * most * (width + 2);
        c.k = c.other + most * (width + 2);
        c.v = c.k + HeadTile.KEYS * width;
        c.scores = c.v + HeadTile.KEYS * width;
        c.factors = c.scores + most * HeadTile.KEYS;
        c.strip = c.factors + most * W;
        return c;
    }

    /** The queries of a chunk, scaled, with zeros behind each. */
    private void gather(AttentionInputs<View> in, Chunk c, float[] s) {
        for (int r = 0; r < c.groups * c.rows; r++) {
            int to = c.q + r * width;
            in.q().load(row(c.n, c.kvHead + r / c.rows, r % c.rows) * d, d, s, to);
            Arrays.fill(s, to + d, to + width, 0);
            scale(s, to, width, scale);
        }
        c.f16 = enlarge(in, c, s);
    }

    /** The queries again, 2^112 times as large, if {@link F16Tile} can use them. */
    private boolean enlarge(AttentionInputs<View> in, Chunk c, float[] s) {
        if (c.rows != HeadTile.ROWS || d != width || in.k().dtype != DType.F16 || in.v().dtype != DType.F16) {
            return false;
        }
        FloatVector most = FloatVector.zero(SPECIES);
        for (int i = 0; i < c.groups * c.rows * width; i += W) {
            FloatVector large = FloatVector.fromArray(SPECIES, s, c.q + i).mul(HeadTile.TWO_TO_112);
            large.intoArray(s, c.large + i);
            most = most.max(large.abs());
        }
        return most.reduceLanes(VectorOperators.MAX) < Float.POSITIVE_INFINITY;
    }

    /** The states of a chunk's rows over the keys of one stretch. */
    private void attend(AttentionInputs<View> in, Chunk c, int stretch, float[] s, int state) {
        for (int r = 0; r < c.groups * c.rows; r++) {
            int y = state + r * (width + 2);
            Arrays.fill(s, y, y + width, 0);
            s[y + width] = Float.NEGATIVE_INFINITY;
            s[y + width + 1] = 0;
        }
        int end = Math.min(c.last + 1, (stretch + 1) * STRETCH);
        int next;
        for (int t = Math.max(c.first, stretch * STRETCH); t < end; t = next) {
            next = Math.min(end, (t / HeadTile.KEYS + 1) * HeadTile.KEYS);
            if (c.groups > 1) {
                touch(in.k(), in.tables(), c, t, next, s);
                touch(in.v(), in.tables(), c, t, next, s);
            }
            int start = t % HeadTile.KEYS;
            for (int kv = 0; kv < c.groups; kv++) {
                int y = state + kv * c.rows * (width + 2);
                if (!c.f16 || !dotsF16(in.k(), in.tables(), c, kv, t, next, s)) {
                    fetch(in, false, c, kv, t, next, s, c.k + start * width);
                    HeadTile.dots(s, c.q + kv * c.rows * width, c.k, width, c.rows, c.scores, c.strip);
                }
                soften(in.positions(), c, t, next, s, y);
                if (!c.f16 || !collectF16(in.v(), in.tables(), c, kv, t, next, s, y)) {
                    fetch(in, true, c, kv, t, next, s, c.v + start * width);
                    HeadTile.collect(s, c.scores, c.v, width, start, start + next - t, c.rows, c.factors, y, width + 2);
                }
            }
        }
    }

    private boolean dotsF16(View k, View tables, Chunk c, int kv, int t, int next, float[] s) {
        int q = c.large + kv * c.rows * width;
        int at = c.k + t % HeadTile.KEYS * HeadTile.CHAINS;
        boolean finite = true;
        int end;
        for (int i = t; i < next; i = end) {
            end = endOfRun(tables, c.sequence, i, next);
            long from = 2 * key(tables, c.sequence, i, c.kvHead + kv);
            finite &= F16Tile.chains(k.segment, from, end - i, 2 * kvHeads * d, s, q, width, at);
            at += (end - i) * HeadTile.CHAINS;
        }
        if (finite) {
            HeadTile.foldChains(s, c.k, c.scores);
        }
        return finite;
    }

    private boolean collectF16(View v, View tables, Chunk c, int kv, int t, int next, float[] s, int y) {
        scale(s, c.scores, c.rows * HeadTile.KEYS, HeadTile.TWO_TO_112);
        Arrays.fill(s, c.v, c.v + c.rows * width, 0);
        int w = c.scores + t % HeadTile.KEYS;
        boolean finite = true;
        int end;
        for (int i = t; i < next; i = end) {
            end = endOfRun(tables, c.sequence, i, next);
            long from = 2 * key(tables, c.sequence, i, c.kvHead + kv);
            finite &= F16Tile.sums(v.segment, from, end - i, 2 * kvHeads * d, s, w, width, c.v);
            w += end - i;
        }
        if (!finite) {
            scale(s, c.scores, c.rows * HeadTile.KEYS, 1 / HeadTile.TWO_TO_112);
            return false;
        }
        for (int r = 0; r < c.rows; r++) {
            FloatVector factor = FloatVector.broadcast(SPECIES, s[c.factors + r]);
            int to = y + r * (width + 2);
            for (int i = 0; i < width; i += W) {
                FloatVector sum = FloatVector.fromArray(SPECIES, s, c.v + r * width + i);
                FloatVector.fromArray(SPECIES, s, to + i).fma(factor, sum).intoArray(s, to + i);
            }
        }
        return true;
    }

    /** Brings the lines of a chunk's heads from memory in the order they lie there, which is what it is fastest at. */
    private void touch(View x, View tables, Chunk c, int t, int next, float[] s) {
        int lines = 0;
        for (int i = t; i < next; i++) {
            lines += HeadTile.touch(x, key(tables, c.sequence, i, c.kvHead), c.groups * d);
        }
        s[c.strip] = lines; // or nobody would read them
    }

    /** Scores to weights relative to the maximum so far, the sums moved along, and what sums of values have to be scaled by. */
    private void soften(View positions, Chunk c, int t, int next, float[] s, int state) {
        int tile = t / HeadTile.KEYS * HeadTile.KEYS;
        for (int r = 0; r < c.rows; r++) {
            int x = c.scores + r * HeadTile.KEYS;
            int position = positions.index(c.n + r / group);
            int from = Math.max(t, first(window, position)) - tile;
            int to = Math.min(next, position + 1) - tile;
            Arrays.fill(s, x, x + Math.clamp(from, 0, HeadTile.KEYS), Float.NEGATIVE_INFINITY);
            Arrays.fill(s, x + Math.clamp(to, 0, HeadTile.KEYS), x + HeadTile.KEYS, Float.NEGATIVE_INFINITY);
            int max = state + r * (width + 2) + width;
            float before = s[max];
            float most = Math.max(before, max(s, x));
            float shift = most == Float.NEGATIVE_INFINITY ? 0 : most;
            Elementwise.affine(s, x, HeadTile.KEYS, 1, -shift);
            s[max] = most;
            s[c.factors + r] = before - shift;
        }
        Exp.run(s, c.scores, c.rows * HeadTile.KEYS);
        Exp.run(s, c.factors, c.rows);
        for (int r = 0; r < c.rows; r++) {
            int sum = state + r * (width + 2) + width + 1;
            int x = c.scores + r * HeadTile.KEYS;
            s[sum] = Math.fma(s[sum], s[c.factors + r], HeadTile.sum(s, x, c.strip));
        }
    }

    private static float max(float[] s, int x) {
        FloatVector most = FloatVector.fromArray(SPECIES, s, x);
        for (int i = W; i < HeadTile.KEYS; i += W) {
            most = most.max(FloatVector.fromArray(SPECIES, s, x + i));
        }
        return most.reduceLanes(VectorOperators.MAX);
    }

    /** The state at {@code y} as if it had gone on over the keys of the state at {@code other}. */
    private void combine(float[] s, int y, int other, int strip) {
        float more = s[other + width];
        if (more == Float.NEGATIVE_INFINITY) {
            return;
        }
        float before = s[y + width];
        float most = Math.max(before, more);
        s[strip] = before - most;
        s[strip + 1] = more - most;
        Exp.run(s, strip, 2);
        float f = s[strip];
        float g = s[strip + 1];
        for (int i = 0; i < width; i += W) {
            FloatVector added = FloatVector.fromArray(SPECIES, s, other + i).mul(g);
            FloatVector.fromArray(SPECIES, s, y + i)
                    .fma(FloatVector.broadcast(SPECIES, f), added)
                    .intoArray(s, y + i);
        }
        s[y + width] = most;
        s[y + width + 1] = Math.fma(s[y + width + 1], f, s[other + width + 1] * g);
    }

    private void deliver(View[] out, Chunk c, float[] s) {
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

    /** Where the keys end that lie one after another from position t on, before {@code next}. */
    private int endOfRun(View tables, long sequence, int t, int next) {
        long table = sequence * tables.last;
        int i = t / block;
        do {
            i++;
        } while (i * block < next && tables.index(table + i) == tables.index(table + i - 1) + 1);
        return Math.min(next, i * block);
    }

    /** Keys or values t..next-1 of a sequence, run by run, each followed by zeros to the width of a row. */
    private void fetch(AttentionInputs<View> in, boolean values, Chunk c, int kv, int t, int next, float[] s, int to) {
        View tables = in.tables();
        View x = values ? in.v() : in.k();
        int at = to;
        int end;
        for (int i = t; i < next; i = end) {
            end = endOfRun(tables, c.sequence, i, next);
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

    /** scores[G, N, S * L]: row by row, -infinity but for the stretch a query sees. */
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
                hide(y, from, first, s, at);
                in.scores().copy(from + first, y, from + first, after - first);
                hide(y, from + after, keys - after, s, at);
            }
        });
    }

    private static void hide(View y, long from, long count, float[] s, int at) {
        Arrays.fill(s, at, at + (int) Math.min(Scratch.STRIP, count), Float.NEGATIVE_INFINITY);
        for (long i = 0; i < count; i += Scratch.STRIP) {
            y.store(from + i, (int) Math.min(Scratch.STRIP, count - i), s, at);
        }
    }
}
