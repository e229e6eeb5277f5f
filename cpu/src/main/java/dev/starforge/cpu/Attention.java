package dev.starforge.cpu;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Attention in tiles with a running softmax (Dao et al. 2022), so that no matrix of scores ever exists.
 *
 * <p>Forward, lanes are dimensions of a head. A tile is 64 keys of a sequence, wherever the cache has them, widened to
 * float32 once for all queries and grouped heads of a chunk. Scores and weighted sums are {@link HeadTile}'s; maxima and sums
 * run along the keys. Tiles are gathered into stretches of 512 keys with a softmax of their own, and stretches are
 * combined from the first to the last. Tiles and stretches begin at multiples of their length, so the order of summation
 * of a query follows from its position alone: not from the other queries, the blocks of the cache, the width of the
 * machine or the threads. A prompt has chunks enough for all threads and walks through its stretches; where there are
 * few chunks, as for one token, every stretch is a chunk and the stretches meet in a second pass. The bits are the same.
 *
 * <p>The gradient recomputes probabilities from the saved log-sum-exp; its lanes are queries, and keys and values are
 * spread over them. For dk and dv the lanes are keys: the same loops with the roles exchanged, one writer for each row.
 *
 * <p>Legend: N queries, H heads, D head size, t a key's position; tiles of the gradient are [panel][d][lane].
 */
final class Attention {
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

    /** Of the gradient: keys (or, for dk and dv, queries of the group's heads) that are spread over the lanes at a time. */
    private static final int SPREAD = 48;

    /** Of the gradient: about how many lanes a chunk fills. */
    private static final int LANES = 64;

    private final float scale;
    private final int window;
    private final int block;
    private final long tokens;
    private final int heads;
    private final int kvHeads;
    private final int group;
    private final int d;
    private final int rows; // d, for whole tiles
    private final int stride; // distance of keys in scratch
    private final int queries; // of a chunk of the gradient
    private final int lanes; // of a chunk of the gradient
    private final int width; // d, for whole vectors of any machine
    private final int sharing; // queries of a chunk
    private final int stretches; // that a table has room for
    private final int together; // groups of heads of a chunk

    Attention(float scale, int window, int block, Shape q, Shape k, Shape tables) {
        this.scale = scale;
        this.window = window;
        this.block = block;
        tokens = q.dim(0);
        heads = Math.toIntExact(q.dim(1));
        kvHeads = Math.toIntExact(k.dim(1));
        group = heads / kvHeads;
        d = Math.toIntExact(q.dim(2));
        rows = Lanes.pad(d, Tile.NARROW_ROWS);
        stride = rows + 4;
        queries = Math.max(1, LANES / Math.max(1, group));
        lanes = Lanes.pad(Math.max(LANES, queries * group), W);
        width = Lanes.pad(d, HeadTile.WIDTH);
        sharing = Math.max(1, SHARING / Math.max(1, group));
        stretches = Math.toIntExact(Workers.count(tables.dim(1) * block, STRETCH));
        together = few() && stretches >= MANY_STRETCHES ? Math.clamp(TOGETHER / Math.max(1, d), 1, kvHeads) : 1;
    }

    static int first(int window, int position) {
        return window == 0 ? 0 : Math.max(0, position - window + 1);
    }

    private boolean few() {
        return tokens * kvHeads <= FEW;
    }

    /** Shared: a state for each query and stretch, where stretches are chunks. */
    Scratch forwardScratch() {
        long rows = (long) sharing * group;
        long states = few() ? tokens * heads * stretches * (width + 2) : 0;
        long queries = 2 * together * rows * width + (together + 1) * rows * (width + 2);
        long tile = 2L * HeadTile.KEYS * width + rows * (HeadTile.KEYS + W);
        return new Scratch(states, queries + tile + HeadTile.SCRATCH + 2 * W);
    }

    /** Four tiles of all lanes, two of what is spread, two of scores, two numbers for each spread row or lane; shared: delta. */
    Scratch gradientScratch() {
        return new Scratch(
                tokens * heads,
                4L * lanes * rows + 2 * SPREAD * stride + 2 * SPREAD * W + 2 * Math.max(lanes, SPREAD) + rows);
    }

    /** Where the pieces of work begin: chunks of queries, or of keys, of each sequence. */
    private record Pieces(int[] sequence, int[] from) {
        long size() {
            return sequence.length;
        }
    }

    private static Pieces pieces(int[] from, int[] to, int step) {
        int size = 0;
        for (int s = 0; s < from.length; s++) {
            size += Math.max(0, (to[s] - from[s] + step - 1) / step);
        }
        int[] sequence = new int[size];
        int[] start = new int[size];
        int at = 0;
        for (int s = 0; s < from.length; s++) {
            for (int i = from[s]; i < to[s]; i += step) {
                sequence[at] = s;
                start[at++] = i;
            }
        }
        return new Pieces(sequence, start);
    }

    private static Pieces queryPieces(View starts, int step) {
        int[] from = new int[Math.toIntExact(starts.size - 1)];
        int[] to = new int[from.length];
        for (int s = 0; s < from.length; s++) {
            from[s] = starts.index(s);
            to[s] = starts.index(s + 1);
        }
        return pieces(from, to, step);
    }

    private Pieces keyPieces(View starts, View positions) {
        int[] from = new int[Math.toIntExact(starts.size - 1)];
        int[] to = new int[from.length];
        for (int s = 0; s < from.length; s++) {
            int begin = starts.index(s);
            int end = starts.index(s + 1);
            from[s] = begin < end ? firstKey(positions, begin, end) : 0;
            to[s] = begin < end ? lastKey(positions, begin, end) + 1 : 0;
        }
        return pieces(from, to, LANES);
    }

    private int firstKey(View positions, int begin, int end) {
        int first = Integer.MAX_VALUE;
        for (int n = begin; n < end; n++) {
            first = Math.min(first, first(window, positions.index(n)));
        }
        return first;
    }

    private static int lastKey(View positions, int begin, int end) {
        int last = 0;
        for (int n = begin; n < end; n++) {
            last = Math.max(last, positions.index(n));
        }
        return last;
    }

    /** The element where the key at position t of a sequence begins. */
    private long key(View tables, long sequence, int t, int kvHead) {
        long row = (long) tables.index(sequence * tables.last + t / block) * block + t % block;
        return (row * kvHeads + kvHead) * d;
    }

    /** Where the keys end that lie one after another from position t on, before {@code next}. */
    private int run(View tables, long sequence, int t, int next) {
        long table = sequence * tables.last;
        int i = t / block;
        do {
            i++;
        } while (i * block < next && tables.index(table + i) == tables.index(table + i - 1) + 1);
        return Math.min(next, i * block);
    }

    /** The row of q and y that lane r of a chunk starting at query n is. */
    private long row(int n, int kvHead, int r) {
        return (n + r / group) * (long) heads + kvHead * group + r % group;
    }

    /** (q, k, v, starts, positions, tables) -> y, lse. */
    void forward(Workers workers, View[] in, View[] out) {
        Pieces pieces = queryPieces(in[3], sharing);
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
        private int large; // queries, if halves
        private boolean halves; // whether HalfTile computes
        private int state;
        private int other;
        private int k;
        private int v;
        private int scores;
        private int factors;
        private int strip;
    }

    private Chunk chunk(View[] in, Pieces pieces, long index, int at) {
        Chunk c = new Chunk();
        int piece = (int) (index / kvHeads);
        c.sequence = pieces.sequence[piece];
        c.n = pieces.from[piece];
        int end = Math.min(c.n + sharing, in[3].index(c.sequence + 1));
        c.kvHead = (int) (index % kvHeads);
        c.rows = (end - c.n) * group;
        c.first = firstKey(in[4], c.n, end);
        c.last = lastKey(in[4], c.n, end);
        int most = sharing * group;
        c.q = at;
        c.large = c.q + together * most * width;
        c.state = c.large + together * most * width;
        c.other = c.state + together * most * (width + 2);
        c.k = c.other + most * (width + 2);
        c.v = c.k + HeadTile.KEYS * width;
        c.scores = c.v + HeadTile.KEYS * width;
        c.factors = c.scores + most * HeadTile.KEYS;
        c.strip = c.factors + most * W;
        return c;
    }

    /** The queries of a chunk, scaled, with zeros behind each. */
    private void gather(View[] in, Chunk c, float[] s) {
        for (int r = 0; r < c.groups * c.rows; r++) {
            int to = c.q + r * width;
            in[0].load(row(c.n, c.kvHead + r / c.rows, r % c.rows) * d, d, s, to);
            Arrays.fill(s, to + d, to + width, 0);
            scale(s, to, width, scale);
        }
        c.halves = enlarge(in, c, s);
    }

    /** The queries again, 2^112 times as large, if {@link HalfTile} can use them. */
    private boolean enlarge(View[] in, Chunk c, float[] s) {
        if (c.rows != HeadTile.ROWS || d != width || in[1].dtype != DType.F16 || in[2].dtype != DType.F16) {
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
    private void attend(View[] in, Chunk c, int stretch, float[] s, int state) {
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
                touch(in[1], in[5], c, t, next, s);
                touch(in[2], in[5], c, t, next, s);
            }
            int start = t % HeadTile.KEYS;
            for (int group = 0; group < c.groups; group++) {
                int y = state + group * c.rows * (width + 2);
                if (!c.halves || !dotsOfHalves(in[1], in[5], c, group, t, next, s)) {
                    fetch(in[1], in[5], c, group, t, next, s, c.k + start * width);
                    HeadTile.dots(s, c.q + group * c.rows * width, c.k, width, c.rows, c.scores, c.strip);
                }
                soften(in[4], c, t, next, s, y);
                if (!c.halves || !collectHalves(in[2], in[5], c, group, t, next, s, y)) {
                    fetch(in[2], in[5], c, group, t, next, s, c.v + start * width);
                    HeadTile.collect(s, c.scores, c.v, width, start, start + next - t, c.rows, c.factors, y, width + 2);
                }
            }
        }
    }

    private boolean dotsOfHalves(View k, View tables, Chunk c, int group, int t, int next, float[] s) {
        int q = c.large + group * c.rows * width;
        int at = c.k + t % HeadTile.KEYS * HeadTile.CHAINS;
        boolean finite = true;
        int end;
        for (int i = t; i < next; i = end) {
            end = run(tables, c.sequence, i, next);
            long from = 2 * key(tables, c.sequence, i, c.kvHead + group);
            finite &= HalfTile.chains(k.segment, from, end - i, 2 * kvHeads * d, s, q, width, at);
            at += (end - i) * HeadTile.CHAINS;
        }
        if (finite) {
            HeadTile.foldChains(s, c.k, c.scores);
        }
        return finite;
    }

    private boolean collectHalves(View v, View tables, Chunk c, int group, int t, int next, float[] s, int y) {
        scale(s, c.scores, c.rows * HeadTile.KEYS, HeadTile.TWO_TO_112);
        Arrays.fill(s, c.v, c.v + c.rows * width, 0);
        int w = c.scores + t % HeadTile.KEYS;
        boolean finite = true;
        int end;
        for (int i = t; i < next; i = end) {
            end = run(tables, c.sequence, i, next);
            long from = 2 * key(tables, c.sequence, i, c.kvHead + group);
            finite &= HalfTile.sums(v.segment, from, end - i, 2 * kvHeads * d, s, w, width, c.v);
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

    /** Keys or values t..next-1 of a sequence, block by block, each followed by zeros to the width of a row. */
    private void fetch(View x, View tables, Chunk c, int group, int t, int next, float[] s, int to) {
        int at = to;
        int end;
        for (int i = t; i < next; i = end) {
            end = run(tables, c.sequence, i, next);
            HeadTile.load(x, key(tables, c.sequence, i, c.kvHead + group), end - i, kvHeads * d, d, width, s, at);
            at += (end - i) * width;
        }
    }

    /** (q, k, v, starts, positions, tables, y, lse, dy) -> dq, dk, dv. */
    void gradient(Workers workers, View[] in, View[] out) {
        workers.rows(tokens * heads, d, (row, s, at) -> s[(int) row] = delta(in[6], in[8], row));
        Pieces byQuery = queryPieces(in[3], queries);
        workers.run(byQuery.size() * kvHeads, (chunk, s, at) -> {
            int piece = (int) (chunk / kvHeads);
            int n = byQuery.from[piece];
            int end = Math.min(n + queries, in[3].index(byQuery.sequence[piece] + 1));
            queryGradient(in, out[0], byQuery.sequence[piece], n, end, (int) (chunk % kvHeads), s, at);
        });
        Elementwise.fill(workers, 0, out[1]);
        Elementwise.fill(workers, 0, out[2]);
        Pieces byKey = keyPieces(in[3], in[4]);
        workers.run(byKey.size() * kvHeads, (chunk, s, at) -> {
            int piece = (int) (chunk / kvHeads);
            keyGradient(in, out, byKey.sequence[piece], byKey.from[piece], (int) (chunk % kvHeads), s, at);
        });
    }

    /** The sum of y * dy over a row: what every probability's gradient is measured against. */
    private float delta(View y, View dy, long row) {
        double delta = 0;
        for (int i = 0; i < d; i++) {
            delta += (double) y.at(row * d + i) * dy.at(row * d + i);
        }
        return (float) delta;
    }

    private void queryGradient(View[] in, View out, int sequence, int n, int end, int kvHead, float[] s, int at) {
        int used = (end - n) * group;
        int panels = Lanes.pad(used, W) / W;
        int q = at;
        int dy = q + lanes * rows;
        int dq = dy + lanes * rows;
        int k = dq + lanes * rows;
        int v = k + SPREAD * stride;
        int scores = v + SPREAD * stride;
        int slopes = scores + SPREAD * W;
        int lse = slopes + SPREAD * W;
        int delta = lse + lanes;
        int strip = delta + lanes;
        gather(in[0], n, kvHead, used, s, q, strip);
        scale(s, q, panels * rows * W, scale);
        gather(in[8], n, kvHead, used, s, dy, strip);
        Arrays.fill(s, dq, dq + panels * rows * W, 0);
        Arrays.fill(s, lse, lse + 2 * lanes, 0);
        for (int r = 0; r < used; r++) {
            s[lse + r] = in[7].at(row(n, kvHead, r));
            s[delta + r] = s[(int) row(n, kvHead, r)];
        }
        int last = lastKey(in[4], n, end);
        int next;
        for (int t = firstKey(in[4], n, end); t <= last; t = next) {
            next = Math.min(last + 1, (t / SPREAD + 1) * SPREAD);
            fetch(in[1], in[5], sequence, kvHead, t, next, s, k);
            fetch(in[2], in[5], sequence, kvHead, t, next, s, v);
            for (int panel = 0; panel < panels; panel++) {
                spread(s, k, q + panel * rows * W, next - t, scores);
                spread(s, v, dy + panel * rows * W, next - t, slopes);
                subtractLanes(s, scores, next - t, lse + panel * W);
                maskKeys(in[4], n, panel * W, used, t, next, s, scores);
                Exp.run(s, scores, (next - t) * W);
                subtractLanes(s, slopes, next - t, delta + panel * W);
                Elementwise.mul(s, slopes, scores, (next - t) * W);
                collect(s, k, slopes, next - t, dq + panel * rows * W);
            }
        }
        scale(s, dq, panels * rows * W, scale);
        for (int r = 0; r < used; r++) {
            take(s, dq, r, strip);
            out.store(row(n, kvHead, r) * d, d, s, strip);
        }
    }

    /** Lanes are keys from {@code first} on; what is spread over them are the queries of the group's heads. */
    private void keyGradient(View[] in, View[] out, int sequence, int first, int kvHead, float[] s, int at) {
        View positions = in[4];
        int begin = in[3].index(sequence);
        int end = in[3].index(sequence + 1);
        int used = Math.min(LANES, lastKey(positions, begin, end) + 1 - first);
        int panels = Lanes.pad(used, W) / W;
        int k = at;
        int v = k + lanes * rows;
        int dk = v + lanes * rows;
        int dv = dk + lanes * rows;
        int q = dv + lanes * rows;
        int dy = q + SPREAD * stride;
        int scores = dy + SPREAD * stride;
        int slopes = scores + SPREAD * W;
        int lse = slopes + SPREAD * W;
        int delta = lse + SPREAD;
        int strip = lse + 2 * Math.max(lanes, SPREAD);
        Arrays.fill(s, k, q, 0);
        for (int lane = 0; lane < used; lane++) {
            long from = key(in[5], sequence, first + lane, kvHead);
            in[1].load(from, d, s, strip);
            put(s, k, lane, strip);
            in[2].load(from, d, s, strip);
            put(s, v, lane, strip);
        }
        for (int from = 0; from < (end - begin) * group; from += SPREAD) {
            int count = Math.min(SPREAD, (end - begin) * group - from);
            int n = begin + from / group;
            int after = begin + (from + count - 1) / group + 1;
            if (lastKey(positions, n, after) < first || firstKey(positions, n, after) >= first + used) {
                continue;
            }
            for (int r = 0; r < count; r++) {
                long row = row(begin, kvHead, from + r);
                in[0].load(row * d, d, s, q + r * stride);
                in[8].load(row * d, d, s, dy + r * stride);
                s[lse + r] = in[7].at(row);
                s[delta + r] = s[(int) row];
            }
            scale(s, q, count * stride, scale);
            for (int panel = 0; panel < panels; panel++) {
                spread(s, q, k + panel * rows * W, count, scores);
                spread(s, dy, v + panel * rows * W, count, slopes);
                subtractRows(s, scores, count, lse);
                maskQueries(positions, begin, from, count, first + panel * W, s, scores);
                Exp.run(s, scores, count * W);
                subtractRows(s, slopes, count, delta);
                Elementwise.mul(s, slopes, scores, count * W);
                collect(s, dy, scores, count, dv + panel * rows * W);
                collect(s, q, slopes, count, dk + panel * rows * W);
            }
        }
        for (int lane = 0; lane < used; lane++) {
            long to = key(in[5], sequence, first + lane, kvHead);
            take(s, dk, lane, strip);
            out[1].store(to, d, s, strip);
            take(s, dv, lane, strip);
            out[2].store(to, d, s, strip);
        }
    }

    /** Query rows of a chunk as lanes, zero in the lanes that are left over. */
    private void gather(View x, int n, int kvHead, int used, float[] s, int to, int strip) {
        Arrays.fill(s, to, to + Lanes.pad(used, W) * rows, 0);
        for (int r = 0; r < used; r++) {
            x.load(row(n, kvHead, r) * d, d, s, strip);
            put(s, to, r, strip);
        }
    }

    private void put(float[] s, int tile, int lane, int strip) {
        int to = tile + lane / W * rows * W + lane % W;
        for (int i = 0; i < d; i++) {
            s[to + i * W] = s[strip + i];
        }
    }

    private void take(float[] s, int tile, int lane, int strip) {
        int from = tile + lane / W * rows * W + lane % W;
        for (int i = 0; i < d; i++) {
            s[strip + i] = s[from + i * W];
        }
    }

    /** Keys or values t..next-1 of a sequence, from wherever the cache has them. */
    private void fetch(View x, View tables, int sequence, int kvHead, int t, int next, float[] s, int to) {
        for (int i = t; i < next; i++) {
            x.load(key(tables, sequence, i, kvHead), d, s, to + (i - t) * stride);
        }
    }

    /** scores[row][lane] = the sum over d of x[row][d] * panel[d][lane]. */
    private void spread(float[] s, int x, int panel, int count, int scores) {
        Arrays.fill(s, scores, scores + count * W, 0);
        for (int row = 0; row < count; row += Tile.NARROW_ROWS) {
            Tile.narrow(s, x + row * stride, stride, 1, panel, d, scores + row * W);
        }
    }

    /** panel[d][lane] += the sum over rows of x[row][d] * weights[row][lane]. */
    private void collect(float[] s, int x, int weights, int count, int panel) {
        for (int i = 0; i < d; i += Tile.NARROW_ROWS) {
            Tile.narrow(s, x + i, 1, stride, weights, count, panel + i * W);
        }
    }

    /** Takes the keys from t on from the lanes whose query must not see them. */
    private void maskKeys(View positions, int n, int lane0, int used, int t, int next, float[] s, int scores) {
        for (int lane = 0; lane < W && lane0 + lane < used; lane++) {
            int position = positions.index(n + (lane0 + lane) / group);
            int first = first(window, position);
            for (int i = t; i < Math.min(first, next); i++) {
                s[scores + (i - t) * W + lane] = Float.NEGATIVE_INFINITY;
            }
            for (int i = Math.max(t, position + 1); i < next; i++) {
                s[scores + (i - t) * W + lane] = Float.NEGATIVE_INFINITY;
            }
        }
    }

    /** The same where lanes are keys from t on, and rows are queries. */
    private void maskQueries(View positions, int begin, int from, int count, int t, float[] s, int scores) {
        for (int row = 0; row < count; row++) {
            int position = positions.index(begin + (from + row) / group);
            int first = first(window, position);
            if (first > t || position < t + W - 1) {
                for (int lane = 0; lane < W; lane++) {
                    if (t + lane < first || t + lane > position) {
                        s[scores + row * W + lane] = Float.NEGATIVE_INFINITY;
                    }
                }
            }
        }
    }

    private static void scale(float[] s, int x, int n, float factor) {
        Elementwise.affine(s, x, n, factor, 0);
    }

    /** Every row minus the vector at {@code y}. */
    private static void subtractLanes(float[] s, int x, int count, int y) {
        FloatVector v = FloatVector.fromArray(SPECIES, s, y);
        for (int row = 0; row < count; row++) {
            FloatVector.fromArray(SPECIES, s, x + row * W).sub(v).intoArray(s, x + row * W);
        }
    }

    /** Every row minus its own number in the list at {@code y}. */
    private static void subtractRows(float[] s, int x, int count, int y) {
        for (int row = 0; row < count; row++) {
            FloatVector.fromArray(SPECIES, s, x + row * W).sub(s[y + row]).intoArray(s, x + row * W);
        }
    }

    /** (scores[G, N, S * L], starts, positions, tables): row by row, -infinity but for the stretch a query sees. */
    static void mask(Workers workers, int window, int block, View[] in, View y) {
        View starts = in[1];
        long tokens = in[2].size;
        long keys = in[3].last * block; // L
        workers.rows(y.size == 0 ? 0 : y.rows, y.last, (row, s, at) -> {
            long n = row % tokens;
            int position = in[2].index(n);
            for (long sequence = 0; sequence + 1 < starts.size; sequence++) {
                boolean own = n >= starts.index(sequence) && n < starts.index(sequence + 1);
                long first = own ? Math.min(keys, first(window, position)) : keys;
                long after = own ? Math.min(keys, position + 1L) : keys;
                long from = row * y.last + sequence * keys;
                hide(y, from, first, s, at);
                in[0].copy(from + first, y, from + first, after - first);
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
