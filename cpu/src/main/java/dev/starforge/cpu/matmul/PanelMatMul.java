package dev.starforge.cpu.matmul;

import static jdk.incubator.vector.VectorOperators.F2I;
import static jdk.incubator.vector.VectorOperators.LSHL;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Panels;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorShuffle;
import jdk.incubator.vector.VectorSpecies;

/**
 * x[M, K] times the transpose of a weight [N, K] stored in panels. A few tokens read the weight once, two panels at a
 * time, at the speed of memory. Many tokens unpack a stretch of a panel once and sweep it with tiles of tokens, a group
 * of panels over a block of tokens, so that both stay in the second level cache.
 *
 * <p>Exact: weights as floats, one chain of fused multiply-adds over each 256 elements, the stretches added in order.
 * Otherwise, for values of four to six bits, activations are rounded to eight bits in groups of 32, a scale to each,
 * and the integer product is exact: the error is at most half a step of x, 1/254 of the absmax of its group of 32.
 * Either way the order of summation follows from K and the type alone.
 */
final class PanelMatMul implements Product {
    private static final int ROWS = Panels.ROWS;
    private static final int SLOTS = QuantizedValues.SLOTS;

    /** Elements unpacked at a time: the block of the K types. */
    private static final int K_BLOCK = PanelWeight.K_BLOCK;

    /** Elements of a panel per call: long enough to stream from memory, short enough that the method is compiled soon. */
    private static final int GEMV_K_BLOCK = 4 * K_BLOCK;

    /** Up to this number of tokens, each token reads the weight by itself. */
    private static final int GEMV_MAX_TOKENS = 4;

    /**
     * Tokens of a sweep, a multiple of either tile's, a little more than half of a usual prompt; panels of a sweep; and the most
     * tokens whose activations are held at once.
     */
    private static final int SWEEP_TOKENS = 264;

    private static final int SWEEP_PANELS = 8;
    private static final int MAX_PACKED_TOKENS = 2 * SWEEP_TOKENS;

    private static final int X_GROUP = QuantizedTile.X_GROUP;

    private static final VectorSpecies<Float> FLOATS = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = FLOATS.withLanes(int.class);
    private static final VectorSpecies<Long> LONGS = FLOATS.withLanes(long.class);
    private static final int W = Lanes.WIDTH;

    // Interleave two vectors: their lower and their upper lanes.
    private static final VectorShuffle<Integer> FIRST = VectorShuffle.makeZip(INTS, 0);
    private static final VectorShuffle<Integer> LAST = VectorShuffle.makeZip(INTS, 1);
    private static final VectorShuffle<Long> FIRST_PAIRS = VectorShuffle.makeZip(LONGS, 0);
    private static final VectorShuffle<Long> LAST_PAIRS = VectorShuffle.makeZip(LONGS, 1);

    private final Panels panels;
    private final DType type;
    private final int m;
    private final long n;
    private final int k;
    private final boolean exact;
    private final boolean few;
    private final QuantizedTile.Format format;
    private final int tile; // tokens of a tile
    private final int run; // products that fit into 16 bits
    private final int centre; // what they are measured from
    private final int scales; // the most of DEPTH elements of a panel; as many shifts follow them

    PanelMatMul(DType type, long m, long n, long k, boolean int8) {
        this.panels = Panels.of(type);
        this.type = type;
        this.m = Math.toIntExact(m);
        this.n = n;
        this.k = Math.toIntExact(k);
        exact = !int8 || !QuantizedValues.areWhole(type);
        few = m <= GEMV_MAX_TOKENS;
        tile = few ? 1 : exact ? PanelTile.TOKENS : QuantizedTile.TOKENS;
        centre = 1 << panels.low + panels.high - 1;
        run = Math.max(1, 256 / centre);
        int dRuns = Integer.numberOfTrailingZeros(QuantizedValues.group(type) / run);
        format = new QuantizedTile.Format(run, dRuns, QuantizedValues.shifts(type));
        scales = PanelWeight.slots(type, k) * ROWS;
    }

    private int padded() {
        return Lanes.pad(Math.min(m, MAX_PACKED_TOKENS), tile);
    }

    @Override
    public Scratch scratch() {
        long each = (few ? 2 * GEMV_MAX_TOKENS : (SWEEP_PANELS + 1) * SWEEP_TOKENS) * ROWS
                + 4 * scales
                + 2 * K_BLOCK * SLOTS;
        return exact
                ? new Scratch((long) padded() * k, each + K_BLOCK * ROWS, 0)
                : new Scratch(2L * padded() * (k / X_GROUP), each, (long) padded() * k + padded() * (k / run));
    }

    @Override
    public void run(Workers workers, View x, long fromX, View w, long fromW, View y, long fromY) {
        int left = (int) (n % ROWS);
        long whole = n / ROWS;
        PanelWeight weight = PanelWeight.of(w, fromW);
        for (int first = 0; first < m; first += MAX_PACKED_TOKENS) {
            int tokens = Math.min(MAX_PACKED_TOKENS, m - first);
            take(workers, x, fromX + (long) first * k, tokens);
            multiply(workers, tokens, weight, whole, y, fromY + first * n);
            if (left > 0) {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment panel = arena.allocate(panels.at(k), 64);
                    multiplyHere(workers, tokens, weight.rest(panel), left, y, fromY + first * n + whole * ROWS);
                }
            }
        }
    }

    /** What all chunks of a product share: quantized activations, the weight, and the output from element {@code to} on. */
    private record PanelCall(QuantizedTile.Activations activations, PanelWeight weight, View out, long to) {}

    private PanelCall call(Workers workers, PanelWeight weight, View out, long to) {
        return new PanelCall(new QuantizedTile.Activations(workers.ints(), biases(), xSums(0)), weight, out, to);
    }

    private void multiply(Workers workers, int tokens, PanelWeight w, long count, View y, long to) {
        PanelCall call = call(workers, w, y, to);
        if (few) {
            long band = Math.clamp(count / workers.threads(), SWEEP_PANELS, 4 * SWEEP_PANELS);
            workers.run(Workers.count(count, band), (chunk, s, own) -> {
                long first = chunk * band;
                int used = (int) Math.min(band, count - first);
                int half = used / 2;
                for (int i = 0; i < half; i++) {
                    pair(call, tokens, first + i, first + i + half, ROWS, s, own);
                }
                if (used % 2 == 1) {
                    pair(call, tokens, first + used - 1, first + used - 1, ROWS, s, own);
                }
            });
            return;
        }
        long groups = Workers.count(count, SWEEP_PANELS);
        workers.run(groups * Workers.count(tokens, SWEEP_TOKENS), (chunk, s, own) -> {
            long panel = chunk % groups * SWEEP_PANELS;
            int used = (int) Math.min(SWEEP_PANELS, count - panel);
            int first = (int) (chunk / groups) * SWEEP_TOKENS;
            sweep(call, first, Math.min(SWEEP_TOKENS, tokens - first), panel, used, ROWS, s, own);
        });
    }

    /** Multiplies the remaining rows, padded to a panel of their own, on the calling thread. */
    private void multiplyHere(Workers workers, int tokens, PanelWeight w, int rows, View y, long to) {
        PanelCall call = call(workers, w, y, to);
        workers.run(1, (chunk, s, own) -> {
            if (few) {
                pair(call, tokens, 0, 0, rows, s, own);
                return;
            }
            for (int first = 0; first < tokens; first += SWEEP_TOKENS) {
                sweep(call, first, Math.min(SWEEP_TOKENS, tokens - first), 0, 1, rows, s, own);
            }
        });
    }

    /** Packs activations as [tile][k][token]: floats, or quantized values with their scales, biases and sums. */
    private void take(Workers workers, View x, long from, int tokens) {
        workers.run(Workers.count(tokens, tile), (chunk, s, own) -> {
            int first = (int) chunk * tile;
            for (int k0 = 0; k0 < k; k0 += K_BLOCK) {
                int count = Math.min(K_BLOCK, k - k0);
                for (int t = 0; t < tile; t++) {
                    long at = from + (long) (first + t) * k + k0;
                    if (first + t < tokens) {
                        x.load(at, count, s, own + t * K_BLOCK);
                    } else {
                        Arrays.fill(s, own + t * K_BLOCK, own + t * K_BLOCK + count, 0);
                    }
                    if (!exact) {
                        round(first, t, k0, count, workers.ints(), s, own + t * K_BLOCK);
                    }
                }
                int to = first * k + k0 * tile;
                if (exact) {
                    for (int i = 0; i < count; i++) {
                        for (int t = 0; t < tile; t++) {
                            s[to + i * tile + t] = s[own + t * K_BLOCK + i];
                        }
                    }
                } else {
                    weave(s, own, count, workers.ints(), to);
                }
            }
        });
    }

    /** Quantizes a token to ints that hold the value in both 16-bit lanes, and stores its scales, sums and biases. */
    private void round(int first, int t, int k0, int count, int[] ints, float[] s, int at) {
        int scale = (first * k + k0 * tile) / X_GROUP + t;
        int bias = biases() + (first * k + k0 * tile) / run + t;
        for (int i = at; i < at + count; i += X_GROUP, scale += tile) {
            float step = Rounding.round(s, i);
            int sum = 0;
            for (int j = i; j < i + X_GROUP; j += run, bias += tile) {
                int part = Rounding.sum(s, j, run);
                ints[bias] = both(-centre * part);
                sum += part;
            }
            s[scale] = step;
            s[xSums(scale)] = step * sum;
        }
        for (int i = at; i < at + count; i += W) {
            IntVector code = (IntVector) FloatVector.fromArray(FLOATS, s, i).convert(F2I, 0);
            code.and(0xffff).or(code.lanewise(LSHL, 16)).reinterpretAsFloats().intoArray(s, i);
        }
    }

    /** Interleaves the tokens of a tile, which are {@link #K_BLOCK} apart. */
    private void weave(float[] s, int from, int count, int[] ints, int to) {
        for (int i = from; i < from + count; i += W, to += tile * W) {
            IntVector a = FloatVector.fromArray(FLOATS, s, i).reinterpretAsInts();
            if (tile == 1) {
                a.intoArray(ints, to);
                continue;
            }
            IntVector b = FloatVector.fromArray(FLOATS, s, i + K_BLOCK).reinterpretAsInts();
            IntVector c = FloatVector.fromArray(FLOATS, s, i + 2 * K_BLOCK).reinterpretAsInts();
            IntVector d = FloatVector.fromArray(FLOATS, s, i + 3 * K_BLOCK).reinterpretAsInts();
            LongVector ab = a.rearrange(FIRST, b).reinterpretAsLongs();
            LongVector cd = c.rearrange(FIRST, d).reinterpretAsLongs();
            ab.rearrange(FIRST_PAIRS, cd).reinterpretAsInts().intoArray(ints, to);
            ab.rearrange(LAST_PAIRS, cd).reinterpretAsInts().intoArray(ints, to + W);
            LongVector ab2 = a.rearrange(LAST, b).reinterpretAsLongs();
            LongVector cd2 = c.rearrange(LAST, d).reinterpretAsLongs();
            ab2.rearrange(FIRST_PAIRS, cd2).reinterpretAsInts().intoArray(ints, to + 2 * W);
            ab2.rearrange(LAST_PAIRS, cd2).reinterpretAsInts().intoArray(ints, to + 3 * W);
        }
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

    /** Multiplies a few tokens with two panels, which are the same if only one is left. */
    private void pair(PanelCall call, int tokens, long panel, long panel2, int rows, float[] s, int own) {
        PanelWeight weight = call.weight;
        MemorySegment w = weight.segment();
        long a = weight.at(panel, 0);
        long b = weight.at(panel2, 0);
        int y = own;
        int d = y + 2 * ROWS * GEMV_MAX_TOKENS;
        int d2 = d + 2 * scales;
        int quants = d2 + 2 * scales;
        QuantizedTile.UnpackedPanels unpacked = new QuantizedTile.UnpackedPanels(quants, quants, d, d + scales, 0);
        Arrays.fill(s, y, y + 2 * ROWS * tokens, 0);
        for (int k0 = 0; k0 < k && bytes(); k0 += GEMV_K_BLOCK) {
            int stretch = Math.min(GEMV_K_BLOCK, k - k0);
            PanelTile.BytePanels bytes =
                    new PanelTile.BytePanels(w, a + panels.at(k0), a + panels.at(k0 + stretch), b - a);
            PanelTile.GroupScales groups =
                    new PanelTile.GroupScales(type.isPlanar() ? QuantizedValues.group(type) : 0, d, d2 - d);
            if (type.isPlanar()) {
                scales(weight, panel, k0, stretch, s, d);
                scales(weight, panel2, k0, stretch, s, d2);
            }
            for (int t = 0; t < tokens; t++) {
                PanelTile.bytes(bytes, groups, K_BLOCK, s, t * k + k0, y + 2 * ROWS * t);
            }
        }
        for (int k0 = 0; k0 < k && !bytes(); k0 += K_BLOCK) {
            int depth = Math.min(K_BLOCK, k - k0);
            scales(weight, panel, k0, depth, s, d);
            alone(call, tokens, panel, k0, depth, s, unpacked, y);
            scales(weight, panel2, k0, depth, s, d);
            alone(call, tokens, panel2, k0, depth, s, unpacked, y + ROWS);
        }
        for (int t = 0; t < tokens; t++) {
            call.out.store(call.to + t * n + panel * ROWS, rows, s, y + 2 * ROWS * t);
            call.out.store(call.to + t * n + panel2 * ROWS, rows, s, y + 2 * ROWS * t + ROWS);
        }
    }

    /** Returns true if 8-bit values are multiplied in place, without unpacking. */
    private boolean bytes() {
        return panels.low == Byte.SIZE;
    }

    /** Loads the scales of a K block of one panel, and its shifts after them. */
    private void scales(PanelWeight w, long panel, int k0, int depth, float[] s, int d) {
        w.scales(panel, k0, depth, exact ? 0 : centre, s, d, d + scales);
    }

    /** Multiplies a few tokens with a K block of one panel, unpacked. */
    private void alone(
            PanelCall call,
            int tokens,
            long panel,
            int k0,
            int depth,
            float[] s,
            QuantizedTile.UnpackedPanels unpacked,
            int y) {
        PanelWeight w = call.weight;
        int quants = unpacked.values();
        int weights = quants + K_BLOCK * SLOTS;
        unpack(w.segment(), w.at(panel, k0), depth, s, quants);
        if (exact) {
            w.weights(panel, k0, depth, s, unpacked.first(), weights);
        }
        for (int t = 0; t < tokens; t++) {
            int yt = y + 2 * ROWS * t;
            if (exact) {
                PanelTile.dot(s, t * k + k0, weights, depth, yt);
            } else {
                QuantizedTile.dot(s, format, call.activations, unpacked, t * k + k0, depth, yt);
            }
        }
    }

    private void unpack(MemorySegment w, long from, int depth, float[] s, int quants) {
        if (!bytes()) {
            QuantizedValues.unpack(panels, w, from, depth, s, quants);
        }
    }

    /** Up to {@link #SWEEP_TOKENS} tokens with up to {@link #SWEEP_PANELS} panels. */
    private void sweep(PanelCall call, int first, int tokens, long panel, int used, int rows, float[] s, int own) {
        PanelWeight weight = call.weight;
        MemorySegment w = weight.segment();
        int y = own;
        int d = y + (SWEEP_PANELS + 1) * SWEEP_TOKENS * ROWS;
        int d2 = d + 2 * scales;
        int quants = d2 + 2 * scales;
        int quants2 = quants + K_BLOCK * SLOTS;
        QuantizedTile.UnpackedPanels unpacked =
                new QuantizedTile.UnpackedPanels(quants, quants2, d, d + scales, d2 - d);
        for (int i = 0; i < used; i++) {
            int yi = y + i * SWEEP_TOKENS * ROWS;
            Arrays.fill(s, yi, yi + Lanes.pad(tokens, tile) * ROWS, 0);
        }
        for (int k0 = 0; k0 < k; k0 += K_BLOCK) {
            int depth = Math.min(K_BLOCK, k - k0);
            for (int i = 0; i < used; i += exact ? 1 : 2) {
                long from = weight.at(panel + i, k0);
                int yi = y + i * SWEEP_TOKENS * ROWS;
                scales(weight, panel + i, k0, depth, s, d);
                unpack(w, from, depth, s, quants);
                if (exact) {
                    weight.weights(panel + i, k0, depth, s, unpacked.first(), quants2);
                    for (int t = 0; t < tokens; t += tile) {
                        PanelTile.tile(s, (first + t) * k + k0 * tile, quants2, depth, yi + t * ROWS);
                    }
                    continue;
                }
                boolean two = i + 1 < used; // otherwise the same panel twice, the second result unused
                long from2 = two ? from + panels.at(k) : from;
                int y2 = y + (two ? i + 1 : SWEEP_PANELS) * SWEEP_TOKENS * ROWS;
                scales(weight, two ? panel + i + 1 : panel + i, k0, depth, s, d2);
                unpack(w, from2, depth, s, quants2);
                for (int t = 0; t < tokens; t += tile) {
                    int xAt = (first + t) * k + k0 * tile;
                    QuantizedTile.tile(s, format, call.activations, unpacked, xAt, depth, yi + t * ROWS, y2 + t * ROWS);
                }
            }
        }
        for (int i = 0; i < used; i++) {
            for (int t = 0; t < tokens; t++) {
                call.out.store(
                        call.to + (first + t) * n + (panel + i) * ROWS, rows, s, y + (i * SWEEP_TOKENS + t) * ROWS);
            }
        }
    }
}
