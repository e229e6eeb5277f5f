package dev.starforge.cpu;

import static java.nio.ByteOrder.LITTLE_ENDIAN;
import static jdk.incubator.vector.VectorOperators.ASHR;
import static jdk.incubator.vector.VectorOperators.I2F;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;

import java.lang.foreign.MemorySegment;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Products of codes of four to six bits with activations of eight. A 16-bit lane holds the sum of a run of products: 32 of
 * four-bit codes, 16 of five, 8 of six, each measured from the centre of its range, can be no larger than 32 * 8 * 127 =
 * 32512. Codes are multiplied as they are, from zero, and the sum starts at minus the centre times the sum of x; what
 * overflows on the way comes back, because 16-bit arithmetic is a ring. Two instructions multiply and add 32 pairs, twice
 * what a fused multiply-add does on machines whose vectors pass in halves, and a whole run is exact.
 *
 * <p>Activations come as ints that hold the number in both halves, so that one broadcast serves 16-bit lanes.
 */
final class CodeTile {
    /** Tokens of a tile. */
    static final int TOKENS = 4;

    private static final int ROWS = Panels.ROWS;
    private static final int SLOTS = Codes.SLOTS;
    private static final int LANES = 64;
    // Not final: the compiler loads a constant again for each use, and keeps a variable in a register.
    private static int nibbleMask = 0x000f000f;
    private static int topMask = 0x00300030;
    private static final VectorSpecies<Float> FLOATS = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = FLOATS.withLanes(int.class);
    private static final int W = Lanes.WIDTH;

    private CodeTile() {}

    /**
     * Four tokens with two panels whose codes are unpacked: y[token][row] += scale of x * scale of w * the sum over a run of
     * code * x; the code is measured from its centre, or from zero where weights are {@code shifted}. Eight sums share four
     * broadcasts.
     *
     * @param runs how many runs, each of {@code run} elements
     * @param dRuns the logarithm of how many runs share a scale of w
     * @param xRuns the logarithm of how many share a scale of x
     */
    static void tile(
            float[] s,
            int codes,
            int codes2,
            int[] x,
            int xAt,
            int biases,
            boolean shifted,
            int runs,
            int run,
            int d,
            int d2,
            int dRuns,
            int xs,
            int xRuns,
            int y,
            int y2) {
        for (int part = 0; part < SLOTS; part += W) {
            int p = codes + part;
            int p2 = codes2 + part;
            int q = xAt;
            int to = y + part;
            int to2 = y2 + part;
            FloatVector f0 = FloatVector.fromArray(FLOATS, s, to);
            FloatVector g0 = FloatVector.fromArray(FLOATS, s, to + SLOTS);
            FloatVector h0 = FloatVector.fromArray(FLOATS, s, to2);
            FloatVector i0 = FloatVector.fromArray(FLOATS, s, to2 + SLOTS);
            FloatVector f1 = FloatVector.fromArray(FLOATS, s, to + ROWS);
            FloatVector g1 = FloatVector.fromArray(FLOATS, s, to + ROWS + SLOTS);
            FloatVector h1 = FloatVector.fromArray(FLOATS, s, to2 + ROWS);
            FloatVector i1 = FloatVector.fromArray(FLOATS, s, to2 + ROWS + SLOTS);
            FloatVector f2 = FloatVector.fromArray(FLOATS, s, to + 2 * ROWS);
            FloatVector g2 = FloatVector.fromArray(FLOATS, s, to + 2 * ROWS + SLOTS);
            FloatVector h2 = FloatVector.fromArray(FLOATS, s, to2 + 2 * ROWS);
            FloatVector i2 = FloatVector.fromArray(FLOATS, s, to2 + 2 * ROWS + SLOTS);
            FloatVector f3 = FloatVector.fromArray(FLOATS, s, to + 3 * ROWS);
            FloatVector g3 = FloatVector.fromArray(FLOATS, s, to + 3 * ROWS + SLOTS);
            FloatVector h3 = FloatVector.fromArray(FLOATS, s, to2 + 3 * ROWS);
            FloatVector i3 = FloatVector.fromArray(FLOATS, s, to2 + 3 * ROWS + SLOTS);
            for (int r = 0; r < runs; r++) {
                int bias = biases + r * TOKENS;
                ShortVector c0 = IntVector.broadcast(INTS, x[bias]).reinterpretAsShorts();
                ShortVector e0 = c0;
                ShortVector c1 = IntVector.broadcast(INTS, x[bias + 1]).reinterpretAsShorts();
                ShortVector e1 = c1;
                ShortVector c2 = IntVector.broadcast(INTS, x[bias + 2]).reinterpretAsShorts();
                ShortVector e2 = c2;
                ShortVector c3 = IntVector.broadcast(INTS, x[bias + 3]).reinterpretAsShorts();
                ShortVector e3 = c3;
                for (int k = 0; k < run; k++, p += SLOTS, p2 += SLOTS, q += TOKENS) {
                    ShortVector w = FloatVector.fromArray(FLOATS, s, p).reinterpretAsShorts();
                    ShortVector v = FloatVector.fromArray(FLOATS, s, p2).reinterpretAsShorts();
                    ShortVector x0 = IntVector.broadcast(INTS, x[q]).reinterpretAsShorts();
                    c0 = c0.add(w.mul(x0));
                    e0 = e0.add(v.mul(x0));
                    ShortVector x1 = IntVector.broadcast(INTS, x[q + 1]).reinterpretAsShorts();
                    c1 = c1.add(w.mul(x1));
                    e1 = e1.add(v.mul(x1));
                    ShortVector x2 = IntVector.broadcast(INTS, x[q + 2]).reinterpretAsShorts();
                    c2 = c2.add(w.mul(x2));
                    e2 = e2.add(v.mul(x2));
                    ShortVector x3 = IntVector.broadcast(INTS, x[q + 3]).reinterpretAsShorts();
                    c3 = c3.add(w.mul(x3));
                    e3 = e3.add(v.mul(x3));
                }
                int scale = (r >> dRuns) * ROWS + part;
                int token = xs + (r >> xRuns) * TOKENS;
                FloatVector d0 = FloatVector.fromArray(FLOATS, s, d + scale);
                FloatVector d1 = FloatVector.fromArray(FLOATS, s, d + scale + SLOTS);
                FloatVector b0 = FloatVector.fromArray(FLOATS, s, d2 + scale);
                FloatVector b1 = FloatVector.fromArray(FLOATS, s, d2 + scale + SLOTS);
                FloatVector s0 = FloatVector.broadcast(FLOATS, s[token]);
                FloatVector z0 = FloatVector.broadcast(FLOATS, shifted ? -(x[bias] >> 16) * s[token] : 0);
                IntVector cs0 = c0.reinterpretAsInts();
                FloatVector cl0 =
                        (FloatVector) cs0.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector ch0 = (FloatVector) cs0.lanewise(ASHR, 16).convert(I2F, 0);
                f0 = cl0.fma(s0, z0).fma(d0, f0);
                g0 = ch0.fma(s0, z0).fma(d1, g0);
                IntVector es0 = e0.reinterpretAsInts();
                FloatVector el0 =
                        (FloatVector) es0.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector eh0 = (FloatVector) es0.lanewise(ASHR, 16).convert(I2F, 0);
                h0 = el0.fma(s0, z0).fma(b0, h0);
                i0 = eh0.fma(s0, z0).fma(b1, i0);
                FloatVector s1 = FloatVector.broadcast(FLOATS, s[token + 1]);
                FloatVector z1 = FloatVector.broadcast(FLOATS, shifted ? -(x[bias + 1] >> 16) * s[token + 1] : 0);
                IntVector cs1 = c1.reinterpretAsInts();
                FloatVector cl1 =
                        (FloatVector) cs1.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector ch1 = (FloatVector) cs1.lanewise(ASHR, 16).convert(I2F, 0);
                f1 = cl1.fma(s1, z1).fma(d0, f1);
                g1 = ch1.fma(s1, z1).fma(d1, g1);
                IntVector es1 = e1.reinterpretAsInts();
                FloatVector el1 =
                        (FloatVector) es1.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector eh1 = (FloatVector) es1.lanewise(ASHR, 16).convert(I2F, 0);
                h1 = el1.fma(s1, z1).fma(b0, h1);
                i1 = eh1.fma(s1, z1).fma(b1, i1);
                FloatVector s2 = FloatVector.broadcast(FLOATS, s[token + 2]);
                FloatVector z2 = FloatVector.broadcast(FLOATS, shifted ? -(x[bias + 2] >> 16) * s[token + 2] : 0);
                IntVector cs2 = c2.reinterpretAsInts();
                FloatVector cl2 =
                        (FloatVector) cs2.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector ch2 = (FloatVector) cs2.lanewise(ASHR, 16).convert(I2F, 0);
                f2 = cl2.fma(s2, z2).fma(d0, f2);
                g2 = ch2.fma(s2, z2).fma(d1, g2);
                IntVector es2 = e2.reinterpretAsInts();
                FloatVector el2 =
                        (FloatVector) es2.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector eh2 = (FloatVector) es2.lanewise(ASHR, 16).convert(I2F, 0);
                h2 = el2.fma(s2, z2).fma(b0, h2);
                i2 = eh2.fma(s2, z2).fma(b1, i2);
                FloatVector s3 = FloatVector.broadcast(FLOATS, s[token + 3]);
                FloatVector z3 = FloatVector.broadcast(FLOATS, shifted ? -(x[bias + 3] >> 16) * s[token + 3] : 0);
                IntVector cs3 = c3.reinterpretAsInts();
                FloatVector cl3 =
                        (FloatVector) cs3.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector ch3 = (FloatVector) cs3.lanewise(ASHR, 16).convert(I2F, 0);
                f3 = cl3.fma(s3, z3).fma(d0, f3);
                g3 = ch3.fma(s3, z3).fma(d1, g3);
                IntVector es3 = e3.reinterpretAsInts();
                FloatVector el3 =
                        (FloatVector) es3.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector eh3 = (FloatVector) es3.lanewise(ASHR, 16).convert(I2F, 0);
                h3 = el3.fma(s3, z3).fma(b0, h3);
                i3 = eh3.fma(s3, z3).fma(b1, i3);
            }
            f0.intoArray(s, to);
            g0.intoArray(s, to + SLOTS);
            h0.intoArray(s, to2);
            i0.intoArray(s, to2 + SLOTS);
            f1.intoArray(s, to + ROWS);
            g1.intoArray(s, to + ROWS + SLOTS);
            h1.intoArray(s, to2 + ROWS);
            i1.intoArray(s, to2 + ROWS + SLOTS);
            f2.intoArray(s, to + 2 * ROWS);
            g2.intoArray(s, to + 2 * ROWS + SLOTS);
            h2.intoArray(s, to2 + 2 * ROWS);
            i2.intoArray(s, to2 + 2 * ROWS + SLOTS);
            f3.intoArray(s, to + 3 * ROWS);
            g3.intoArray(s, to + 3 * ROWS + SLOTS);
            h3.intoArray(s, to2 + 3 * ROWS);
            i3.intoArray(s, to2 + 3 * ROWS + SLOTS);
        }
    }

    /** One token with the 32 rows of a panel whose codes are unpacked; the arithmetic of {@link #tile}. */
    static void dot(
            float[] s,
            int codes,
            int[] x,
            int xAt,
            int biases,
            boolean shifted,
            int runs,
            int run,
            int d,
            int dRuns,
            int xs,
            int xRuns,
            int y) {
        for (int part = 0; part < SLOTS; part += W) {
            int w = codes + part;
            int p = xAt;
            FloatVector f = FloatVector.fromArray(FLOATS, s, y + part);
            FloatVector g = FloatVector.fromArray(FLOATS, s, y + SLOTS + part);
            for (int r = 0; r < runs; r++) {
                int bias = x[biases + r];
                ShortVector c = IntVector.broadcast(INTS, bias).reinterpretAsShorts();
                for (int k = 0; k < run; k++, w += SLOTS, p++) {
                    ShortVector v = FloatVector.fromArray(FLOATS, s, w).reinterpretAsShorts();
                    c = c.add(v.mul(IntVector.broadcast(INTS, x[p]).reinterpretAsShorts()));
                }
                int scale = d + (r >> dRuns) * ROWS + part;
                float token = s[xs + (r >> xRuns)];
                FloatVector each = FloatVector.broadcast(FLOATS, token);
                FloatVector centred = FloatVector.broadcast(FLOATS, shifted ? -(bias >> 16) * token : 0);
                IntVector a = c.reinterpretAsInts();
                FloatVector a0 =
                        (FloatVector) a.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector a1 = (FloatVector) a.lanewise(ASHR, 16).convert(I2F, 0);
                f = a0.fma(each, centred).fma(FloatVector.fromArray(FLOATS, s, scale), f);
                g = a1.fma(each, centred).fma(FloatVector.fromArray(FLOATS, s, scale + SLOTS), g);
            }
            f.intoArray(s, y + part);
            g.intoArray(s, y + SLOTS + part);
        }
    }

    /**
     * What a stretch adds to tokens of one panel whose weights are shifted: y[token][row] += unit[row] * sum[token][row] +
     * shiftUnit[row] * the sum over groups of shift[group][row] * x's sum[group][token].
     */
    static void join(float[] s, int sums, int units, int shifts, int groups, int xSums, int tokens, int y) {
        for (int part = 0; part < ROWS; part += W) {
            FloatVector unit = FloatVector.fromArray(FLOATS, s, units + part);
            FloatVector shiftUnit = FloatVector.fromArray(FLOATS, s, units + ROWS + part);
            for (int t = 0; t < tokens; t++) {
                FloatVector f = FloatVector.zero(FLOATS);
                for (int g = 0; g < groups; g++) {
                    FloatVector sum = FloatVector.broadcast(FLOATS, s[xSums + g * tokens + t]);
                    f = FloatVector.fromArray(FLOATS, s, shifts + g * ROWS + part)
                            .fma(sum, f);
                }
                int at = t * ROWS + part;
                FloatVector both = FloatVector.fromArray(FLOATS, s, sums + at).fma(unit, f.mul(shiftUnit));
                FloatVector.fromArray(FLOATS, s, y + at).add(both).intoArray(s, y + at);
            }
        }
    }

    /**
     * One token with two panels of Q4_0 where they lie: the decode step, which waits for memory. Two streams share x and keep
     * the multipliers busy while the sums of one wait for the other; {@code off} is from one to the other. Scales are halves
     * before their codes.
     */
    static void scaledNibbles(
            MemorySegment w, long from, long off, long end, int[] x, int xAt, int biases, float[] s, int xs, int y) {
        for (int part = 0; part < SLOTS; part += W) {
            int to = y + part;
            IntVector nibble = IntVector.broadcast(INTS, nibbleMask);
            FloatVector f0 = FloatVector.fromArray(FLOATS, s, to);
            FloatVector f1 = FloatVector.fromArray(FLOATS, s, to + SLOTS);
            FloatVector g0 = FloatVector.fromArray(FLOATS, s, to + ROWS);
            FloatVector g1 = FloatVector.fromArray(FLOATS, s, to + ROWS + SLOTS);
            int q = xAt;
            int g = 0;
            for (long p = from + 4 * part; p < end; g++) {
                IntVector h = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                IntVector h2 = IntVector.fromMemorySegment(INTS, w, p + off, LITTLE_ENDIAN);
                IntVector low = h.lanewise(LSHL, 16).lanewise(ASHR, 3).and(Codes.HALF);
                IntVector low2 = h2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(Codes.HALF);
                IntVector high = h.lanewise(ASHR, 3).and(Codes.HALF);
                IntVector high2 = h2.lanewise(ASHR, 3).and(Codes.HALF);
                FloatVector d0 = low.reinterpretAsFloats().mul(Codes.TWO_TO_112);
                FloatVector d1 = high.reinterpretAsFloats().mul(Codes.TWO_TO_112);
                FloatVector e0 = low2.reinterpretAsFloats().mul(Codes.TWO_TO_112);
                FloatVector e1 = high2.reinterpretAsFloats().mul(Codes.TWO_TO_112);
                p += LANES;
                ShortVector c = IntVector.broadcast(INTS, x[biases + g]).reinterpretAsShorts();
                ShortVector e = c;
                for (long last = p + 8 * LANES; p < last; p += LANES, q += 4) {
                    IntVector v = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                    IntVector u = IntVector.fromMemorySegment(INTS, w, p + off, LITTLE_ENDIAN);
                    ShortVector x0 = IntVector.broadcast(INTS, x[q]).reinterpretAsShorts();
                    c = c.add(v.and(nibble).reinterpretAsShorts().mul(x0));
                    e = e.add(u.and(nibble).reinterpretAsShorts().mul(x0));
                    ShortVector x1 = IntVector.broadcast(INTS, x[q + 1]).reinterpretAsShorts();
                    c = c.add(v.lanewise(LSHR, 4)
                            .and(nibble)
                            .reinterpretAsShorts()
                            .mul(x1));
                    e = e.add(u.lanewise(LSHR, 4)
                            .and(nibble)
                            .reinterpretAsShorts()
                            .mul(x1));
                    ShortVector x2 = IntVector.broadcast(INTS, x[q + 2]).reinterpretAsShorts();
                    c = c.add(v.lanewise(LSHR, 8)
                            .and(nibble)
                            .reinterpretAsShorts()
                            .mul(x2));
                    e = e.add(u.lanewise(LSHR, 8)
                            .and(nibble)
                            .reinterpretAsShorts()
                            .mul(x2));
                    ShortVector x3 = IntVector.broadcast(INTS, x[q + 3]).reinterpretAsShorts();
                    c = c.add(v.reinterpretAsShorts().lanewise(LSHR, 12).mul(x3));
                    e = e.add(u.reinterpretAsShorts().lanewise(LSHR, 12).mul(x3));
                }
                FloatVector each = FloatVector.broadcast(FLOATS, s[xs + g]);
                IntVector a = c.reinterpretAsInts();
                IntVector b = e.reinterpretAsInts();
                FloatVector a0 =
                        (FloatVector) a.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector a1 = (FloatVector) a.lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector b0 =
                        (FloatVector) b.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector b1 = (FloatVector) b.lanewise(ASHR, 16).convert(I2F, 0);
                f0 = a0.mul(each).fma(d0, f0);
                f1 = a1.mul(each).fma(d1, f1);
                g0 = b0.mul(each).fma(e0, g0);
                g1 = b1.mul(each).fma(e1, g1);
            }
            f0.intoArray(s, to);
            f1.intoArray(s, to + SLOTS);
            g0.intoArray(s, to + ROWS);
            g1.intoArray(s, to + ROWS + SLOTS);
        }
    }

    /**
     * The same for shifted weights, whose scales are taken from the scratch; the {@code gap} bytes of scales before each
     * further 32 elements are passed over. A stretch's sums begin at zero, for {@link #join}.
     */
    static void nibbles(
            MemorySegment w,
            long from,
            long off,
            long end,
            int gap,
            int[] x,
            int xAt,
            int biases,
            float[] s,
            int d,
            int d2,
            int xs,
            int y) {
        for (int part = 0; part < SLOTS; part += W) {
            int to = y + part;
            IntVector nibble = IntVector.broadcast(INTS, nibbleMask);
            FloatVector f0 = FloatVector.zero(FLOATS);
            FloatVector f1 = f0;
            FloatVector g0 = f0;
            FloatVector g1 = f0;
            int q = xAt;
            int g = 0;
            for (long p = from + 4 * part; p < end; p += gap, g++) {
                int bias = x[biases + g];
                ShortVector c = IntVector.broadcast(INTS, bias).reinterpretAsShorts();
                ShortVector e = c;
                for (long last = p + 8 * LANES; p < last; p += LANES, q += 4) {
                    IntVector v = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                    IntVector u = IntVector.fromMemorySegment(INTS, w, p + off, LITTLE_ENDIAN);
                    ShortVector x0 = IntVector.broadcast(INTS, x[q]).reinterpretAsShorts();
                    c = c.add(v.and(nibble).reinterpretAsShorts().mul(x0));
                    e = e.add(u.and(nibble).reinterpretAsShorts().mul(x0));
                    ShortVector x1 = IntVector.broadcast(INTS, x[q + 1]).reinterpretAsShorts();
                    c = c.add(v.lanewise(LSHR, 4)
                            .and(nibble)
                            .reinterpretAsShorts()
                            .mul(x1));
                    e = e.add(u.lanewise(LSHR, 4)
                            .and(nibble)
                            .reinterpretAsShorts()
                            .mul(x1));
                    ShortVector x2 = IntVector.broadcast(INTS, x[q + 2]).reinterpretAsShorts();
                    c = c.add(v.lanewise(LSHR, 8)
                            .and(nibble)
                            .reinterpretAsShorts()
                            .mul(x2));
                    e = e.add(u.lanewise(LSHR, 8)
                            .and(nibble)
                            .reinterpretAsShorts()
                            .mul(x2));
                    ShortVector x3 = IntVector.broadcast(INTS, x[q + 3]).reinterpretAsShorts();
                    c = c.add(v.reinterpretAsShorts().lanewise(LSHR, 12).mul(x3));
                    e = e.add(u.reinterpretAsShorts().lanewise(LSHR, 12).mul(x3));
                }
                float token = s[xs + g];
                FloatVector each = FloatVector.broadcast(FLOATS, token);
                FloatVector centred = FloatVector.broadcast(FLOATS, -(bias >> 16) * token);
                IntVector a = c.reinterpretAsInts();
                IntVector b = e.reinterpretAsInts();
                FloatVector a0 =
                        (FloatVector) a.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector a1 = (FloatVector) a.lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector b0 =
                        (FloatVector) b.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector b1 = (FloatVector) b.lanewise(ASHR, 16).convert(I2F, 0);
                int scale = d + g * ROWS + part;
                int scale2 = d2 + g * ROWS + part;
                f0 = a0.fma(each, centred).fma(FloatVector.fromArray(FLOATS, s, scale), f0);
                f1 = a1.fma(each, centred).fma(FloatVector.fromArray(FLOATS, s, scale + SLOTS), f1);
                g0 = b0.fma(each, centred).fma(FloatVector.fromArray(FLOATS, s, scale2), g0);
                g1 = b1.fma(each, centred).fma(FloatVector.fromArray(FLOATS, s, scale2 + SLOTS), g1);
            }
            f0.intoArray(s, to);
            f1.intoArray(s, to + SLOTS);
            g0.intoArray(s, to + ROWS);
            g1.intoArray(s, to + ROWS + SLOTS);
        }
    }

    /** The same for one block of six-bit codes, whose upper two bits are a plane of their own. */
    static void sixths(
            MemorySegment w,
            long from,
            long off,
            int high,
            int[] x,
            int xAt,
            int biases,
            float[] s,
            int d,
            int d2,
            int xs,
            int y) {
        for (int part = 0; part < SLOTS; part += W) {
            int to = y + part;
            IntVector nibble = IntVector.broadcast(INTS, nibbleMask);
            IntVector top = IntVector.broadcast(INTS, topMask);
            FloatVector f0 = FloatVector.fromArray(FLOATS, s, to);
            FloatVector f1 = FloatVector.fromArray(FLOATS, s, to + SLOTS);
            FloatVector g0 = FloatVector.fromArray(FLOATS, s, to + ROWS);
            FloatVector g1 = FloatVector.fromArray(FLOATS, s, to + ROWS + SLOTS);
            ShortVector c = IntVector.broadcast(INTS, x[biases]).reinterpretAsShorts();
            ShortVector e = c;
            int scale = d + part;
            int scale2 = d2 + part;
            int i = 0;
            long upper = from + high + 4 * part;
            long end = from + high;
            for (long p = from + 4 * part; p < end; p += 2 * LANES, upper += LANES) {
                IntVector v = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                IntVector u = IntVector.fromMemorySegment(INTS, w, p + off, LITTLE_ENDIAN);
                IntVector h = IntVector.fromMemorySegment(INTS, w, upper, LITTLE_ENDIAN);
                IntVector t = IntVector.fromMemorySegment(INTS, w, upper + off, LITTLE_ENDIAN);
                int q = xAt + i;
                ShortVector x0 = IntVector.broadcast(INTS, x[q + 0]).reinterpretAsShorts();
                c = c.add(v.and(nibble)
                        .or(h.lanewise(LSHL, 4).and(top))
                        .reinterpretAsShorts()
                        .mul(x0));
                e = e.add(u.and(nibble)
                        .or(t.lanewise(LSHL, 4).and(top))
                        .reinterpretAsShorts()
                        .mul(x0));
                ShortVector x1 = IntVector.broadcast(INTS, x[q + 1]).reinterpretAsShorts();
                c = c.add(v.lanewise(LSHR, 4)
                        .and(nibble)
                        .or(h.lanewise(LSHL, 2).and(top))
                        .reinterpretAsShorts()
                        .mul(x1));
                e = e.add(u.lanewise(LSHR, 4)
                        .and(nibble)
                        .or(t.lanewise(LSHL, 2).and(top))
                        .reinterpretAsShorts()
                        .mul(x1));
                ShortVector x2 = IntVector.broadcast(INTS, x[q + 2]).reinterpretAsShorts();
                c = c.add(v.lanewise(LSHR, 8)
                        .and(nibble)
                        .or(h.and(top))
                        .reinterpretAsShorts()
                        .mul(x2));
                e = e.add(u.lanewise(LSHR, 8)
                        .and(nibble)
                        .or(t.and(top))
                        .reinterpretAsShorts()
                        .mul(x2));
                ShortVector x3 = IntVector.broadcast(INTS, x[q + 3]).reinterpretAsShorts();
                c = c.add(v.lanewise(LSHR, 12)
                        .and(nibble)
                        .or(h.lanewise(LSHR, 2).and(top))
                        .reinterpretAsShorts()
                        .mul(x3));
                e = e.add(u.lanewise(LSHR, 12)
                        .and(nibble)
                        .or(t.lanewise(LSHR, 2).and(top))
                        .reinterpretAsShorts()
                        .mul(x3));
                v = IntVector.fromMemorySegment(INTS, w, p + LANES, LITTLE_ENDIAN);
                u = IntVector.fromMemorySegment(INTS, w, p + off + LANES, LITTLE_ENDIAN);
                ShortVector x4 = IntVector.broadcast(INTS, x[q + 4]).reinterpretAsShorts();
                c = c.add(v.and(nibble)
                        .or(h.lanewise(LSHR, 4).and(top))
                        .reinterpretAsShorts()
                        .mul(x4));
                e = e.add(u.and(nibble)
                        .or(t.lanewise(LSHR, 4).and(top))
                        .reinterpretAsShorts()
                        .mul(x4));
                ShortVector x5 = IntVector.broadcast(INTS, x[q + 5]).reinterpretAsShorts();
                c = c.add(v.lanewise(LSHR, 4)
                        .and(nibble)
                        .or(h.lanewise(LSHR, 6).and(top))
                        .reinterpretAsShorts()
                        .mul(x5));
                e = e.add(u.lanewise(LSHR, 4)
                        .and(nibble)
                        .or(t.lanewise(LSHR, 6).and(top))
                        .reinterpretAsShorts()
                        .mul(x5));
                ShortVector x6 = IntVector.broadcast(INTS, x[q + 6]).reinterpretAsShorts();
                c = c.add(v.lanewise(LSHR, 8)
                        .and(nibble)
                        .or(h.lanewise(LSHR, 8).and(top))
                        .reinterpretAsShorts()
                        .mul(x6));
                e = e.add(u.lanewise(LSHR, 8)
                        .and(nibble)
                        .or(t.lanewise(LSHR, 8).and(top))
                        .reinterpretAsShorts()
                        .mul(x6));
                ShortVector x7 = IntVector.broadcast(INTS, x[q + 7]).reinterpretAsShorts();
                c = c.add(v.lanewise(LSHR, 12)
                        .and(nibble)
                        .or(h.lanewise(LSHR, 10).and(top))
                        .reinterpretAsShorts()
                        .mul(x7));
                e = e.add(u.lanewise(LSHR, 12)
                        .and(nibble)
                        .or(t.lanewise(LSHR, 10).and(top))
                        .reinterpretAsShorts()
                        .mul(x7));
                i += 8;
                float token = s[xs + (i - 8 >> 5)];
                IntVector a = c.reinterpretAsInts();
                FloatVector d0 = FloatVector.fromArray(FLOATS, s, scale);
                FloatVector d1 = FloatVector.fromArray(FLOATS, s, scale + SLOTS);
                f0 = ((FloatVector) a.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0))
                        .mul(token)
                        .fma(d0, f0);
                f1 = ((FloatVector) a.lanewise(ASHR, 16).convert(I2F, 0))
                        .mul(token)
                        .fma(d1, f1);
                IntVector b = e.reinterpretAsInts();
                FloatVector e0 = FloatVector.fromArray(FLOATS, s, scale2);
                FloatVector e1 = FloatVector.fromArray(FLOATS, s, scale2 + SLOTS);
                g0 = ((FloatVector) b.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0))
                        .mul(token)
                        .fma(e0, g0);
                g1 = ((FloatVector) b.lanewise(ASHR, 16).convert(I2F, 0))
                        .mul(token)
                        .fma(e1, g1);
                scale += (i & 8) == 0 ? ROWS : 0;
                scale2 += (i & 8) == 0 ? ROWS : 0;
                c = IntVector.broadcast(INTS, x[biases + (i >> 3)]).reinterpretAsShorts();
                e = c;
            }
            f0.intoArray(s, to);
            f1.intoArray(s, to + SLOTS);
            g0.intoArray(s, to + ROWS);
            g1.intoArray(s, to + ROWS + SLOTS);
        }
    }
}
