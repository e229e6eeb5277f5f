package dev.starforge.cpu;

import dev.starforge.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * x[M, K] times the transpose of a weight [N, K] that lies in panels. A few tokens read the weight once, two panels at a
 * time, at the speed of memory. Many tokens unpack a stretch of a panel once and sweep it with tiles of tokens, a group of
 * panels over a block of tokens, so that both stay in the second level cache.
 *
 * <p>Exact: weights as floats, one chain of fused multiply-adds over each 256 elements, the stretches added in order.
 * Otherwise, for codes of four to six bits, activations are rounded to eight bits in groups of 32, a scale to each, and
 * the product of the codes is exact: what is lost is half a step of x, 1/254 of the largest of its 32 neighbours. Either
 * way the order of summation follows from K and the type alone.
 */
final class PanelMatMul implements Product {
    private static final int ROWS = Panels.ROWS;
    private static final int SLOTS = Codes.SLOTS;

    /** Elements unpacked at a time: the block of the K types. */
    private static final int DEPTH = 256;

    /** Elements that a token takes of a panel at a time: long enough for memory, short enough to be compiled soon. */
    private static final int STRETCH = 4 * DEPTH;

    /** Tokens that are worth reading the weight for one at a time. */
    private static final int FEW = 4;

    /** Tokens and panels of a sweep, and the most tokens whose activations are held at once. */
    private static final int TOKENS = 144;

    private static final int PANELS = 8;
    private static final int AT_ONCE = 4 * TOKENS;

    /** Activations that share a scale, and the most scales of a panel in {@link #DEPTH} elements. */
    private static final int X_GROUP = 32;

    private static final int GROUPS = DEPTH / 16;

    /** Floats a worker needs for two panels of a stretch: scales, shifts, their units, and sums of a tile. */
    private static final int SCALES = GROUPS * ROWS;

    private static final int UNITS = 2 * ROWS;
    private static final int SUMS = CodeTile.TOKENS * ROWS;
    private static final int OWN = 2 * (2 * SCALES + UNITS + SUMS);

    /** Added and subtracted again, rounds to whole numbers. */
    private static final float ROUNDER = 0x1.8p23f;

    private static final VectorSpecies<Float> FLOATS = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;

    private final Panels panels;
    private final DType type;
    private final int m;
    private final long n;
    private final int k;
    private final boolean exact;
    private final boolean few;
    private final boolean shifted;
    private final int tile; // tokens of a tile
    private final int run; // products that fit into 16 bits
    private final int centre; // what they are measured from

    PanelMatMul(DType type, long m, long n, long k, boolean exact) {
        this.panels = Panels.of(type);
        this.type = type;
        this.m = Math.toIntExact(m);
        this.n = n;
        this.k = Math.toIntExact(k);
        this.exact = exact || type == DType.Q8_0 || type == DType.NF4;
        few = m <= FEW;
        shifted = Codes.shifts(type);
        tile = few ? 1 : this.exact ? PanelTile.TOKENS : CodeTile.TOKENS;
        centre = 1 << panels.low + panels.high - 1;
        run = Math.max(1, 256 / centre);
    }

    private int padded() {
        return Lanes.pad(Math.min(m, AT_ONCE), tile);
    }

    @Override
    public Scratch scratch() {
        long each = (few ? 2 * ROWS * FEW : (PANELS + 1) * TOKENS * ROWS) + OWN + 2 * DEPTH * SLOTS;
        return exact
                ? new Scratch((long) padded() * k, each + DEPTH * ROWS, 0)
                : new Scratch(
                        2L * padded() * (k / X_GROUP), each + DEPTH, (long) padded() * k + padded() * (k / run) + 1);
    }

    @Override
    public void run(Workers workers, View x, long fromX, View w, long fromW, View y, long fromY) {
        int left = (int) (n % ROWS);
        long whole = n / ROWS;
        long at = w.dtype.bytes(fromW);
        for (int first = 0; first < m; first += AT_ONCE) {
            int tokens = Math.min(AT_ONCE, m - first);
            take(workers, x, fromX + (long) first * k, tokens);
            multiply(workers, tokens, w.segment, at, whole, ROWS, y, fromY + first * n);
            if (left > 0) {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment panel = arena.allocate(panels.at(k), 64);
                    panels.pack(w.segment, at + whole * panels.at(k), left, k, panel, 0);
                    multiplyHere(workers, tokens, panel, left, y, fromY + first * n + whole * ROWS);
                }
            }
        }
    }

    private void multiply(
            Workers workers, int tokens, MemorySegment w, long at, long count, int rows, View y, long to) {
        if (few) {
            long band = Math.clamp(count / workers.threads(), PANELS, 4 * PANELS);
            workers.run(Workers.count(count, band), (chunk, s, own) -> {
                long first = chunk * band;
                int used = (int) Math.min(band, count - first);
                int half = used / 2;
                for (int i = 0; i < half; i++) {
                    pair(workers.ints(), tokens, w, at, first + i, first + i + half, rows, y, to, s, own);
                }
                if (used % 2 == 1) {
                    pair(workers.ints(), tokens, w, at, first + used - 1, first + used - 1, rows, y, to, s, own);
                }
            });
            return;
        }
        long groups = Workers.count(count, PANELS);
        workers.run(groups * Workers.count(tokens, TOKENS), (chunk, s, own) -> {
            long panel = chunk % groups * PANELS;
            int used = (int) Math.min(PANELS, count - panel);
            int first = (int) (chunk / groups) * TOKENS;
            sweep(workers.ints(), first, Math.min(TOKENS, tokens - first), w, at, panel, used, rows, y, to, s, own);
        });
    }

    /** The rows that fill no panel, in a panel of their own, on the calling thread. */
    private void multiplyHere(Workers workers, int tokens, MemorySegment w, int rows, View y, long to) {
        workers.run(1, (chunk, s, own) -> {
            if (few) {
                pair(workers.ints(), tokens, w, 0, 0, 0, rows, y, to, s, own);
                return;
            }
            for (int first = 0; first < tokens; first += TOKENS) {
                sweep(workers.ints(), first, Math.min(TOKENS, tokens - first), w, 0, 0, 1, rows, y, to, s, own);
            }
        });
    }

    /** Activations as the kernels want them: [tile][k][token], floats or codes with their scales, biases and sums. */
    private void take(Workers workers, View x, long from, int tokens) {
        int all = Lanes.pad(tokens, tile);
        workers.run(all, (token, s, own) -> {
            if (exact) {
                takeFloats(x, from, (int) token, token < tokens, s, own);
            } else {
                takeCodes(x, from, (int) token, token < tokens, workers.ints(), s, own);
            }
        });
    }

    /** Where the numbers of a token begin that has {@code each} of them; they are {@link #tile} apart. */
    private int place(int token, int each) {
        return token / tile * tile * each + token % tile;
    }

    private void takeFloats(View x, long from, int token, boolean there, float[] s, int own) {
        int to = place(token, k);
        for (int k0 = 0; k0 < k; k0 += DEPTH) {
            int count = Math.min(DEPTH, k - k0);
            load(x, from + (long) token * k + k0, count, there, s, own);
            for (int i = 0; i < count; i++) {
                s[to + (k0 + i) * tile] = s[own + i];
            }
        }
    }

    private static void load(View x, long from, int count, boolean there, float[] s, int own) {
        if (there) {
            x.load(from, count, s, own);
        } else {
            Arrays.fill(s, own, own + count, 0);
        }
    }

    private void takeCodes(View x, long from, int token, boolean there, int[] codes, float[] s, int own) {
        int scales = place(token, k / X_GROUP);
        int sums = xSums(scales);
        int biases = biases() + place(token, k / run);
        int to = place(token, k);
        for (int k0 = 0; k0 < k; k0 += DEPTH) {
            int count = Math.min(DEPTH, k - k0);
            load(x, from + (long) token * k + k0, count, there, s, own);
            for (int i = 0; i < count; i += X_GROUP) {
                float step = round(s, own + i);
                int sum = 0;
                for (int j = 0; j < X_GROUP; j += run) {
                    int part = sum(s, own + i + j, run);
                    codes[biases + (k0 + i + j) / run * tile] = both(-centre * part);
                    sum += part;
                }
                int group = (k0 + i) / X_GROUP * tile;
                s[scales + group] = step;
                s[sums + group] = step * sum;
            }
            if (tile == 1) {
                codes(s, own, count, codes, to + k0);
                continue;
            }
            for (int i = 0; i < count; i++) {
                codes[to + (k0 + i) * tile] = both((int) s[own + i]);
            }
        }
    }

    /** 32 numbers as multiples, up to 127, of the step that is returned. */
    private static float round(float[] s, int at) {
        FloatVector most = FloatVector.zero(FLOATS);
        for (int i = 0; i < X_GROUP; i += W) {
            most = most.max(FloatVector.fromArray(FLOATS, s, at + i).abs());
        }
        float largest = most.reduceLanes(VectorOperators.MAX);
        float inverse = largest == 0 ? 0 : 127 / largest;
        for (int i = 0; i < X_GROUP; i += W) {
            FloatVector.fromArray(FLOATS, s, at + i)
                    .mul(inverse)
                    .add(ROUNDER)
                    .sub(ROUNDER)
                    .intoArray(s, at + i);
        }
        return largest / 127;
    }

    private static void codes(float[] s, int at, int count, int[] codes, int to) {
        for (int i = 0; i < count; i += W) {
            IntVector code =
                    (IntVector) FloatVector.fromArray(FLOATS, s, at + i).convert(VectorOperators.F2I, 0);
            code.and(0xffff).or(code.lanewise(VectorOperators.LSHL, 16)).intoArray(codes, to + i);
        }
    }

    private static int sum(float[] s, int from, int count) {
        int sum = 0;
        for (int i = 0; i < count; i++) {
            sum += (int) s[from + i];
        }
        return sum;
    }

    private static int both(int half) {
        return half & 0xffff | half << 16;
    }

    /** Where the sums are of the activations whose scales are at {@code xs}. */
    private int xSums(int xs) {
        return padded() * (k / X_GROUP) + xs;
    }

    private int biases() {
        return padded() * k;
    }

    /** A few tokens with two panels; the same one twice where there is but one. */
    private void pair(
            int[] x,
            int tokens,
            MemorySegment w,
            long at,
            long panel,
            long panel2,
            int rows,
            View out,
            long to,
            float[] s,
            int own) {
        long each = panels.at(k);
        long a = at + panel * each;
        long b = at + panel2 * each;
        int y = own;
        int d = y + 2 * ROWS * FEW;
        int d2 = d + OWN / 2;
        int codes = d2 + OWN / 2;
        Arrays.fill(s, y, y + 2 * ROWS * tokens, 0);
        for (int k0 = 0; k0 < k && inline(); k0 += STRETCH) {
            long from = a + panels.at(k0);
            long end = a + panels.at(Math.min(k, k0 + STRETCH));
            for (int t = 0; t < tokens; t++) {
                int yt = y + 2 * ROWS * t;
                if (exact) {
                    PanelTile.bytes(w, from, b - a, end, DEPTH, s, t * k + k0, yt);
                } else {
                    int bias = biases() + (t * k + k0) / run;
                    int xs = (t * k + k0) / X_GROUP;
                    CodeTile.scaledNibbles(w, from, b - a, end, x, t * k + k0, bias, s, xs, yt);
                }
            }
        }
        for (int k0 = 0; k0 < k && !inline(); k0 += DEPTH) {
            int depth = Math.min(DEPTH, k - k0);
            long from = a + panels.at(k0);
            scales(w, from, depth, s, d);
            scales(w, from + b - a, depth, s, d2);
            if (exact || panels.high == 1) {
                alone(x, tokens, w, from, k0, depth, s, codes, d, y);
                alone(x, tokens, w, from + b - a, k0, depth, s, codes, d2, y + ROWS);
                continue;
            }
            for (int t = 0; t < tokens; t++) {
                int yt = y + 2 * ROWS * t;
                int xs = t * (k / X_GROUP) + k0 / X_GROUP;
                int bias = biases() + (t * k + k0) / run;
                long low = from + panels.lowAt();
                if (shifted) {
                    int gap = type.blockElements() == X_GROUP ? panels.lowAt() : 0;
                    long end = from + panels.at(depth);
                    int sums = sums(d);
                    CodeTile.nibbles(w, low, b - a, end, gap, x, t * k + k0, bias, s, d, d2, xs, sums);
                    join(s, sums, d, depth, xs, yt);
                    join(s, sums + ROWS, d2, depth, xs, yt + ROWS);
                } else {
                    int high = panels.highAt() - panels.lowAt();
                    CodeTile.sixths(w, low, b - a, high, x, t * k + k0, bias, s, d, d2, xs, yt);
                }
            }
        }
        for (int t = 0; t < tokens; t++) {
            out.store(to + t * n + panel * ROWS, rows, s, y + 2 * ROWS * t);
            out.store(to + t * n + panel2 * ROWS, rows, s, y + 2 * ROWS * t + ROWS);
        }
    }

    /** Types whose scales are read along with their codes. */
    private boolean inline() {
        return type == DType.Q8_0 || type == DType.Q4_0 && !exact;
    }

    /** Where beside the scales at {@code d} a stretch has its shifts, their units, and the sums of a tile. */
    private static int shifts(int d) {
        return d + SCALES;
    }

    private static int units(int d) {
        return shifts(d) + SCALES;
    }

    private static int sums(int d) {
        return units(d) + UNITS;
    }

    private void scales(MemorySegment w, long from, int depth, float[] s, int d) {
        Codes.scales(panels, w, from, depth, s, d, shifts(d), units(d));
    }

    /** What a stretch of shifted weights adds to a tile of tokens with one panel. */
    private void join(float[] s, int sums, int d, int depth, int xs, int y) {
        CodeTile.join(s, sums, units(d), shifts(d), depth / X_GROUP, xSums(xs), tile, y);
    }

    private void weights(MemorySegment w, long from, int depth, float[] s, int codes, int d, int to) {
        Codes.weights(panels, w, from, depth, s, codes, d, shifts(d), units(d), to);
    }

    /** A few tokens with a stretch of one panel, by way of its codes. */
    private void alone(
            int[] x, int tokens, MemorySegment w, long from, int k0, int depth, float[] s, int codes, int d, int y) {
        Codes.unpack(panels, w, from, depth, s, codes);
        int weights = codes + DEPTH * SLOTS;
        if (exact) {
            weights(w, from, depth, s, codes, d, weights);
        }
        for (int t = 0; t < tokens; t++) {
            int yt = y + 2 * ROWS * t;
            if (exact) {
                PanelTile.dot(s, t * k + k0, weights, depth, yt);
                continue;
            }
            int xs = t * (k / X_GROUP) + k0 / X_GROUP;
            int bias = biases() + (t * k + k0) / run;
            int sums = shifted ? sums(d) : yt;
            if (shifted) {
                Arrays.fill(s, sums, sums + ROWS, 0);
            }
            CodeTile.dot(s, codes, x, t * k + k0, bias, shifted, depth / run, run, d, dRuns(), xs, xRuns(), sums);
            if (shifted) {
                join(s, sums, d, depth, xs, yt);
            }
        }
    }

    /** Logarithms of how many runs share a scale of w, and of x. */
    private int dRuns() {
        return Integer.numberOfTrailingZeros(Codes.group(type) / run);
    }

    private int xRuns() {
        return Integer.numberOfTrailingZeros(X_GROUP / run);
    }

    /** Scales and codes of a stretch. */
    private void unpack(MemorySegment w, long from, int depth, float[] s, int d, int codes) {
        scales(w, from, depth, s, d);
        if (panels.low < Byte.SIZE) {
            Codes.unpack(panels, w, from, depth, s, codes);
        }
    }

    /** Up to {@link #TOKENS} tokens with up to {@link #PANELS} panels. */
    private void sweep(
            int[] x,
            int first,
            int tokens,
            MemorySegment w,
            long at,
            long panel,
            int used,
            int rows,
            View out,
            long to,
            float[] s,
            int own) {
        int y = own;
        int d = y + (PANELS + 1) * TOKENS * ROWS;
        int d2 = d + OWN / 2;
        int codes = d2 + OWN / 2;
        int codes2 = codes + DEPTH * SLOTS;
        Arrays.fill(s, y, y + (PANELS + 1) * TOKENS * ROWS, 0);
        for (int k0 = 0; k0 < k; k0 += DEPTH) {
            int depth = Math.min(DEPTH, k - k0);
            for (int i = 0; i < used; i += exact ? 1 : 2) {
                long from = at + (panel + i) * panels.at(k) + panels.at(k0);
                int yi = y + i * TOKENS * ROWS;
                unpack(w, from, depth, s, d, codes);
                if (exact) {
                    int weights = codes + DEPTH * SLOTS;
                    weights(w, from, depth, s, codes, d, weights);
                    for (int t = 0; t < tokens; t += tile) {
                        PanelTile.tile(s, (first + t) * k + k0 * tile, weights, depth, yi + t * ROWS);
                    }
                    continue;
                }
                boolean two = i + 1 < used; // else the same one twice, the second for nobody
                int y2 = y + (two ? i + 1 : PANELS) * TOKENS * ROWS;
                unpack(w, two ? from + panels.at(k) : from, depth, s, d2, codes2);
                for (int t = 0; t < tokens; t += tile) {
                    int xs = (first + t) * (k / X_GROUP) + k0 / X_GROUP * tile;
                    int bias = biases() + (first + t) * (k / run) + k0 / run * tile;
                    int sums = shifted ? sums(d) : yi + t * ROWS;
                    int sums2 = shifted ? sums(d2) : y2 + t * ROWS;
                    if (shifted) {
                        Arrays.fill(s, sums, sums + SUMS, 0);
                        Arrays.fill(s, sums2, sums2 + SUMS, 0);
                    }
                    CodeTile.tile(
                            s,
                            codes,
                            codes2,
                            x,
                            (first + t) * k + k0 * tile,
                            bias,
                            shifted,
                            depth / run,
                            run,
                            d,
                            d2,
                            dRuns(),
                            xs,
                            xRuns(),
                            sums,
                            sums2);
                    if (shifted) {
                        join(s, sums, d, depth, xs, yi + t * ROWS);
                        join(s, sums2, d2, depth, xs, y2 + t * ROWS);
                    }
                }
            }
        }
        for (int i = 0; i < used; i++) {
            for (int t = 0; t < tokens; t++) {
                out.store(to + (first + t) * n + (panel + i) * ROWS, rows, s, y + (i * TOKENS + t) * ROWS);
            }
        }
    }
}
