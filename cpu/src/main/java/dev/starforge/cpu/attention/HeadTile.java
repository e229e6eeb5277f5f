package dev.starforge.cpu.attention;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.View;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorShuffle;
import jdk.incubator.vector.VectorSpecies;

/**
 * The innermost loops of attention: a few queries against {@link #KEYS} keys and values of one head, which are stored
 * in rows of floats padded with zeros to a multiple of {@link #WIDTH}. Lanes are dimensions of the head, as memory has
 * them, so that one query costs as little as its arithmetic and nothing is transposed.
 *
 * <p>A score is {@value #CHAINS} chains of fused multiply-adds, dimension i in chain i mod {@value #CHAINS}, which meet
 * in a binary tree: 8 apart, then 4, 2, 1. Narrow vectors take the chains in several passes. The last levels of as many
 * trees as there are lanes are one shuffle and one addition for two vectors, so no vector is summed on its own. A
 * value's sum is one chain over the keys. Neither depends on the vector width or the other keys in the tile.
 */
public final class HeadTile {
    /** Keys in a tile: as many as fill a first level cache together with their values, so that what a tile costs once is shared. */
    public static final int KEYS = 64;

    /** Rows are padded to multiples of this, so that loops over a head have no remainder. */
    static final int WIDTH = 64;

    static final int CHAINS = 16;

    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = SPECIES.withLanes(int.class);
    private static final VectorSpecies<Short> SHORTS =
            VectorSpecies.of(short.class, VectorShape.forBitSize(Lanes.WIDTH * Short.SIZE));
    private static final int W = Lanes.WIDTH;
    static final int ROWS = 4;
    private static final int LINE = 64;

    private static final VectorMask<Float> UPPER_8 = upper(8);
    private static final VectorMask<Float> UPPER_4 = upper(4);
    private static final VectorMask<Float> UPPER_2 = upper(2);
    private static final VectorMask<Float> UPPER_1 = upper(1);
    private static final VectorShuffle<Float> SWAP_8 = swap(8);
    private static final VectorShuffle<Float> SWAP_4 = swap(4);
    private static final VectorShuffle<Float> SWAP_2 = swap(2);
    private static final VectorShuffle<Float> SWAP_1 = swap(1);

    static final int SIGN_AND_MAGNITUDE = 0x8fffe000;
    static final float TWO_TO_112 = 0x1p112f;
    static final short INFINITY_F16 = 0x7c00;
    private static final ByteOrder LITTLE = ByteOrder.LITTLE_ENDIAN;

    /** Floats that {@link #scores} works in. */
    static final int SCRATCH = ROWS * W * CHAINS;

    private HeadTile() {}

    private static VectorMask<Float> upper(int distance) {
        boolean[] lanes = new boolean[W];
        for (int i = 0; i < W; i++) {
            lanes[i] = (i & distance) != 0;
        }
        return VectorMask.fromArray(SPECIES, lanes, 0);
    }

    private static VectorShuffle<Float> swap(int distance) {
        return VectorShuffle.fromOp(SPECIES, i -> (i ^ distance) % W);
    }

    /** Reads a little of every cache line. */
    static int prefetch(View x, long from, int count) {
        int bytes = x.dtype.bytes();
        int sum = 0;
        for (int i = 0; i < count * bytes; i += LINE) {
            sum += x.segment.get(ValueLayout.JAVA_BYTE, from * bytes + i);
        }
        return sum;
    }

    /** Some rows of a cache, {@code step} elements apart, as floats {@code width} apart. */
    static void load(View x, long from, int rows, int step, int d, int width, float[] s, int to) {
        boolean done = d % (4 * W) == 0;
        if (done) {
            switch (x.dtype) {
                case F16 -> done = loadF16(x.segment, 2 * from, rows, 2 * step, d, width, s, to);
                case BF16 -> loadBf16(x.segment, 2 * from, rows, 2 * step, d, width, s, to);
                case F32 -> loadF32(x.segment, 4 * from, rows, 4 * step, d, width, s, to);
                default -> done = false;
            }
        }
        for (int row = 0; row < rows; row++) {
            int at = to + row * width;
            if (!done) {
                x.load(from + (long) row * step, d, s, at);
            }
            Arrays.fill(s, at + d, at + width, 0);
        }
    }

    /**
     * Moving the bits into place leaves the exponent 112 too small, subnormals included. That is wrong for infinity and
     * NaN: returns false if there are any; the caller then converts the rows.
     */
    private static boolean loadF16(
            MemorySegment x, long from, int rows, int step, int d, int width, float[] s, int to) {
        ShortVector magnitude = ShortVector.broadcast(SHORTS, (short) 0x7fff);
        ShortVector most = ShortVector.zero(SHORTS);
        for (int i = 0; i < d; i += 4 * W) {
            for (int row = 0; row < rows; row++) {
                long start = from + (long) row * step + 2L * i;
                int at = to + row * width + i;
                ShortVector a = ShortVector.fromMemorySegment(SHORTS, x, start, LITTLE);
                ShortVector b = ShortVector.fromMemorySegment(SHORTS, x, start + 2 * W, LITTLE);
                ShortVector c = ShortVector.fromMemorySegment(SHORTS, x, start + 4 * W, LITTLE);
                ShortVector e = ShortVector.fromMemorySegment(SHORTS, x, start + 6 * W, LITTLE);
                most = most.max(a.and(magnitude)).max(b.and(magnitude));
                most = most.max(c.and(magnitude)).max(e.and(magnitude));
                IntVector bits = (IntVector) a.convertShape(VectorOperators.S2I, INTS, 0);
                bits = bits.lanewise(VectorOperators.LSHL, 13).and(SIGN_AND_MAGNITUDE);
                bits.reinterpretAsFloats().mul(TWO_TO_112).intoArray(s, at);
                bits = (IntVector) b.convertShape(VectorOperators.S2I, INTS, 0);
                bits = bits.lanewise(VectorOperators.LSHL, 13).and(SIGN_AND_MAGNITUDE);
                bits.reinterpretAsFloats().mul(TWO_TO_112).intoArray(s, at + W);
                bits = (IntVector) c.convertShape(VectorOperators.S2I, INTS, 0);
                bits = bits.lanewise(VectorOperators.LSHL, 13).and(SIGN_AND_MAGNITUDE);
                bits.reinterpretAsFloats().mul(TWO_TO_112).intoArray(s, at + 2 * W);
                bits = (IntVector) e.convertShape(VectorOperators.S2I, INTS, 0);
                bits = bits.lanewise(VectorOperators.LSHL, 13).and(SIGN_AND_MAGNITUDE);
                bits.reinterpretAsFloats().mul(TWO_TO_112).intoArray(s, at + 3 * W);
            }
        }
        return most.reduceLanes(VectorOperators.MAX) < INFINITY_F16;
    }

    private static void loadBf16(MemorySegment x, long from, int rows, int step, int d, int width, float[] s, int to) {
        for (int i = 0; i < d; i += 2 * W) {
            for (int row = 0; row < rows; row++) {
                long start = from + (long) row * step + 2L * i;
                int at = to + row * width + i;
                ShortVector a = ShortVector.fromMemorySegment(SHORTS, x, start, LITTLE);
                ShortVector b = ShortVector.fromMemorySegment(SHORTS, x, start + 2 * W, LITTLE);
                IntVector bits = (IntVector) a.convertShape(VectorOperators.ZERO_EXTEND_S2I, INTS, 0);
                bits.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats().intoArray(s, at);
                bits = (IntVector) b.convertShape(VectorOperators.ZERO_EXTEND_S2I, INTS, 0);
                bits.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats().intoArray(s, at + W);
            }
        }
    }

    private static void loadF32(MemorySegment x, long from, int rows, int step, int d, int width, float[] s, int to) {
        for (int i = 0; i < d; i += 2 * W) {
            for (int row = 0; row < rows; row++) {
                long start = from + (long) row * step + 4L * i;
                int at = to + row * width + i;
                FloatVector.fromMemorySegment(SPECIES, x, start, LITTLE).intoArray(s, at);
                FloatVector.fromMemorySegment(SPECIES, x, start + 4 * W, LITTLE).intoArray(s, at + W);
            }
        }
    }

    /** scores[r][key] = q[r] . k[key] for all keys of the tile. */
    static void scores(float[] s, int q, int k, int width, int rows, int scores, int strip) {
        for (int key = 0; key < KEYS; key += W) {
            int from = k + key * width;
            int r = 0;
            for (; r + ROWS <= rows; r += ROWS) {
                for (int part = 0; part < CHAINS; part += W) {
                    fourDots(s, q + r * width + part, from + part, width, strip + part);
                }
                for (int i = 0; i < ROWS; i++) {
                    fold(s, strip + i * W * CHAINS, scores + (r + i) * KEYS + key);
                }
            }
            for (; r < rows; r++) {
                for (int part = 0; part < CHAINS; part += W) {
                    for (int i = 0; i < W; i += 4) {
                        oneDot(s, q + r * width + part, from + i * width + part, width, strip + i * CHAINS + part);
                    }
                }
                fold(s, strip, scores + r * KEYS + key);
            }
        }
    }

    /** A vector of chains of four queries and as many keys as there are lanes. */
    private static void fourDots(float[] s, int q, int k, int width, int strip) {
        FloatVector zero = FloatVector.zero(SPECIES);
        for (int i = 0; i < width; i += WIDTH) {
            FloatVector q00 = FloatVector.fromArray(SPECIES, s, q + i);
            FloatVector q01 = FloatVector.fromArray(SPECIES, s, q + i + CHAINS);
            FloatVector q02 = FloatVector.fromArray(SPECIES, s, q + i + 2 * CHAINS);
            FloatVector q03 = FloatVector.fromArray(SPECIES, s, q + i + 3 * CHAINS);
            FloatVector q10 = FloatVector.fromArray(SPECIES, s, q + i + width);
            FloatVector q11 = FloatVector.fromArray(SPECIES, s, q + i + width + CHAINS);
            FloatVector q12 = FloatVector.fromArray(SPECIES, s, q + i + width + 2 * CHAINS);
            FloatVector q13 = FloatVector.fromArray(SPECIES, s, q + i + width + 3 * CHAINS);
            FloatVector q20 = FloatVector.fromArray(SPECIES, s, q + i + 2 * width);
            FloatVector q21 = FloatVector.fromArray(SPECIES, s, q + i + 2 * width + CHAINS);
            FloatVector q22 = FloatVector.fromArray(SPECIES, s, q + i + 2 * width + 2 * CHAINS);
            FloatVector q23 = FloatVector.fromArray(SPECIES, s, q + i + 2 * width + 3 * CHAINS);
            FloatVector q30 = FloatVector.fromArray(SPECIES, s, q + i + 3 * width);
            FloatVector q31 = FloatVector.fromArray(SPECIES, s, q + i + 3 * width + CHAINS);
            FloatVector q32 = FloatVector.fromArray(SPECIES, s, q + i + 3 * width + 2 * CHAINS);
            FloatVector q33 = FloatVector.fromArray(SPECIES, s, q + i + 3 * width + 3 * CHAINS);
            int at = k + i;
            int end = strip + W * CHAINS;
            for (int to = strip; to < end; to += CHAINS, at += width) {
                FloatVector c0 = i == 0 ? zero : FloatVector.fromArray(SPECIES, s, to);
                FloatVector c1 = i == 0 ? zero : FloatVector.fromArray(SPECIES, s, to + W * CHAINS);
                FloatVector c2 = i == 0 ? zero : FloatVector.fromArray(SPECIES, s, to + 2 * W * CHAINS);
                FloatVector c3 = i == 0 ? zero : FloatVector.fromArray(SPECIES, s, to + 3 * W * CHAINS);
                FloatVector x = FloatVector.fromArray(SPECIES, s, at);
                c0 = q00.fma(x, c0);
                c1 = q10.fma(x, c1);
                c2 = q20.fma(x, c2);
                c3 = q30.fma(x, c3);
                x = FloatVector.fromArray(SPECIES, s, at + CHAINS);
                c0 = q01.fma(x, c0);
                c1 = q11.fma(x, c1);
                c2 = q21.fma(x, c2);
                c3 = q31.fma(x, c3);
                x = FloatVector.fromArray(SPECIES, s, at + 2 * CHAINS);
                c0 = q02.fma(x, c0);
                c1 = q12.fma(x, c1);
                c2 = q22.fma(x, c2);
                c3 = q32.fma(x, c3);
                x = FloatVector.fromArray(SPECIES, s, at + 3 * CHAINS);
                c0 = q03.fma(x, c0);
                c1 = q13.fma(x, c1);
                c2 = q23.fma(x, c2);
                c3 = q33.fma(x, c3);
                c0.intoArray(s, to);
                c1.intoArray(s, to + W * CHAINS);
                c2.intoArray(s, to + 2 * W * CHAINS);
                c3.intoArray(s, to + 3 * W * CHAINS);
            }
        }
    }

    /** A vector of chains of one query and four keys. */
    private static void oneDot(float[] s, int q, int k, int width, int to) {
        FloatVector a = FloatVector.zero(SPECIES);
        FloatVector b = a;
        FloatVector c = a;
        FloatVector d = a;
        for (int i = 0; i < width; i += CHAINS) {
            FloatVector x = FloatVector.fromArray(SPECIES, s, q + i);
            a = x.fma(FloatVector.fromArray(SPECIES, s, k + i), a);
            b = x.fma(FloatVector.fromArray(SPECIES, s, k + width + i), b);
            c = x.fma(FloatVector.fromArray(SPECIES, s, k + 2 * width + i), c);
            d = x.fma(FloatVector.fromArray(SPECIES, s, k + 3 * width + i), d);
        }
        a.intoArray(s, to);
        b.intoArray(s, to + CHAINS);
        c.intoArray(s, to + 2 * CHAINS);
        d.intoArray(s, to + 3 * CHAINS);
    }

    /** The sums of W rows of chains, as one vector. */
    private static void fold(float[] s, int v, int to) {
        for (int half = CHAINS / 2; half >= W; half /= 2) {
            for (int row = v; row < v + W * CHAINS; row += CHAINS) {
                for (int i = row; i < row + half; i += W) {
                    FloatVector.fromArray(SPECIES, s, i)
                            .add(FloatVector.fromArray(SPECIES, s, i + half))
                            .intoArray(s, i);
                }
            }
        }
        if (W == 16) {
            foldBy8And4(s, v);
        } else if (W == 8) {
            foldBy4(s, v);
        }
        FloatVector a = FloatVector.fromArray(SPECIES, s, v);
        FloatVector b = FloatVector.fromArray(SPECIES, s, v + CHAINS);
        FloatVector c = FloatVector.fromArray(SPECIES, s, v + 2 * CHAINS);
        FloatVector d = FloatVector.fromArray(SPECIES, s, v + 3 * CHAINS);
        FloatVector ac = a.blend(c, UPPER_2).add(c.blend(a, UPPER_2).rearrange(SWAP_2));
        FloatVector bd = b.blend(d, UPPER_2).add(d.blend(b, UPPER_2).rearrange(SWAP_2));
        ac.blend(bd, UPPER_1).add(bd.blend(ac, UPPER_1).rearrange(SWAP_1)).intoArray(s, to);
    }

    /** Sixteen vectors to four: where two are a and b, the lanes without the bit are a's sums, the others b's. */
    private static void foldBy8And4(float[] s, int v) {
        for (int i = v; i < v + 4 * CHAINS; i += CHAINS) {
            FloatVector a = FloatVector.fromArray(SPECIES, s, i);
            FloatVector b = FloatVector.fromArray(SPECIES, s, i + 4 * CHAINS);
            FloatVector c = FloatVector.fromArray(SPECIES, s, i + 8 * CHAINS);
            FloatVector d = FloatVector.fromArray(SPECIES, s, i + 12 * CHAINS);
            FloatVector ac = a.blend(c, UPPER_8).add(c.blend(a, UPPER_8).rearrange(SWAP_8));
            FloatVector bd = b.blend(d, UPPER_8).add(d.blend(b, UPPER_8).rearrange(SWAP_8));
            ac.blend(bd, UPPER_4).add(bd.blend(ac, UPPER_4).rearrange(SWAP_4)).intoArray(s, i);
        }
    }

    /** Eight vectors to four. */
    private static void foldBy4(float[] s, int v) {
        for (int i = v; i < v + 4 * CHAINS; i += CHAINS) {
            FloatVector a = FloatVector.fromArray(SPECIES, s, i);
            FloatVector b = FloatVector.fromArray(SPECIES, s, i + 4 * CHAINS);
            a.blend(b, UPPER_4).add(b.blend(a, UPPER_4).rearrange(SWAP_4)).intoArray(s, i);
        }
    }

    /** The scores of {@link F16Tile}'s queries from their chains. */
    static void foldChains(float[] s, int chains, int scores) {
        for (int i = 0; i < ROWS * KEYS; i += W) {
            fold(s, chains + i * CHAINS, scores + i);
        }
    }

    /** The sum of a row of scores, in chains as well. */
    static float sum(float[] s, int x, int strip) {
        for (int i = 0; i < CHAINS; i += W) {
            FloatVector chain = FloatVector.fromArray(SPECIES, s, x + i);
            for (int key = CHAINS; key < KEYS; key += CHAINS) {
                chain = chain.add(FloatVector.fromArray(SPECIES, s, x + key + i));
            }
            chain.intoArray(s, strip + i);
        }
        float e0 = s[strip] + s[strip + 8] + (s[strip + 4] + s[strip + 12]);
        float e1 = s[strip + 1] + s[strip + 9] + (s[strip + 5] + s[strip + 13]);
        float e2 = s[strip + 2] + s[strip + 10] + (s[strip + 6] + s[strip + 14]);
        float e3 = s[strip + 3] + s[strip + 11] + (s[strip + 7] + s[strip + 15]);
        return e0 + e2 + (e1 + e3);
    }

    /** A tile of V in the scratch: keys {@code from} to {@code to - 1} of [key][width] at {@code at}. */
    record ValueTile(int at, int width, int from, int to) {}

    /** y[r] = y[r] * factors[r] + the chain over the keys of the tile of weights[r][key] * v[key]. */
    static void addWeightedValues(float[] s, int weights, ValueTile v, int rows, int factors, int y, int step) {
        int r = 0;
        for (; r + ROWS <= rows; r += ROWS) {
            for (int i = 0; i < v.width; i += 2 * W) {
                fourSums(s, weights + r * KEYS, v, i, factors + r, y + r * step + i, step);
            }
        }
        for (; r < rows; r++) {
            for (int i = 0; i < v.width; i += W) {
                oneSum(s, weights + r * KEYS, v, i, s[factors + r], y + r * step + i);
            }
        }
    }

    /** Two vectors of the sums of four rows. */
    private static void fourSums(float[] s, int w, ValueTile tile, int column, int factors, int y, int step) {
        int v = tile.at + column;
        int width = tile.width;
        int to = tile.to;
        FloatVector a0 = FloatVector.zero(SPECIES);
        FloatVector a1 = a0;
        FloatVector a2 = a0;
        FloatVector a3 = a0;
        FloatVector b0 = a0;
        FloatVector b1 = a0;
        FloatVector b2 = a0;
        FloatVector b3 = a0;
        for (int key = tile.from; key < to; key++) {
            FloatVector a = FloatVector.fromArray(SPECIES, s, v + key * width);
            FloatVector b = FloatVector.fromArray(SPECIES, s, v + key * width + W);
            FloatVector x = FloatVector.broadcast(SPECIES, s[w + key]);
            a0 = x.fma(a, a0);
            b0 = x.fma(b, b0);
            x = FloatVector.broadcast(SPECIES, s[w + KEYS + key]);
            a1 = x.fma(a, a1);
            b1 = x.fma(b, b1);
            x = FloatVector.broadcast(SPECIES, s[w + 2 * KEYS + key]);
            a2 = x.fma(a, a2);
            b2 = x.fma(b, b2);
            x = FloatVector.broadcast(SPECIES, s[w + 3 * KEYS + key]);
            a3 = x.fma(a, a3);
            b3 = x.fma(b, b3);
        }
        FloatVector f = FloatVector.broadcast(SPECIES, s[factors]);
        FloatVector.fromArray(SPECIES, s, y).fma(f, a0).intoArray(s, y);
        FloatVector.fromArray(SPECIES, s, y + W).fma(f, b0).intoArray(s, y + W);
        f = FloatVector.broadcast(SPECIES, s[factors + 1]);
        int next = y + step;
        FloatVector.fromArray(SPECIES, s, next).fma(f, a1).intoArray(s, next);
        FloatVector.fromArray(SPECIES, s, next + W).fma(f, b1).intoArray(s, next + W);
        f = FloatVector.broadcast(SPECIES, s[factors + 2]);
        next += step;
        FloatVector.fromArray(SPECIES, s, next).fma(f, a2).intoArray(s, next);
        FloatVector.fromArray(SPECIES, s, next + W).fma(f, b2).intoArray(s, next + W);
        f = FloatVector.broadcast(SPECIES, s[factors + 3]);
        next += step;
        FloatVector.fromArray(SPECIES, s, next).fma(f, a3).intoArray(s, next);
        FloatVector.fromArray(SPECIES, s, next + W).fma(f, b3).intoArray(s, next + W);
    }

    private static void oneSum(float[] s, int w, ValueTile tile, int column, float factor, int y) {
        FloatVector sum = FloatVector.zero(SPECIES);
        int to = tile.to;
        for (int key = tile.from; key < to; key++) {
            FloatVector x = FloatVector.broadcast(SPECIES, s[w + key]);
            sum = x.fma(FloatVector.fromArray(SPECIES, s, tile.at + column + key * tile.width), sum);
        }
        FloatVector.fromArray(SPECIES, s, y)
                .fma(FloatVector.broadcast(SPECIES, factor), sum)
                .intoArray(s, y);
    }
}
