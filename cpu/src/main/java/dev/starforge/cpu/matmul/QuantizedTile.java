package dev.starforge.cpu.matmul;

import static jdk.incubator.vector.VectorOperators.ASHR;
import static jdk.incubator.vector.VectorOperators.I2F;
import static jdk.incubator.vector.VectorOperators.LSHL;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Panels;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Products of quantized values of four to six bits with int8 activations. A 16-bit lane holds the sum of a run of products: 32 of
 * four-bit values, 16 of five, 8 of six, each measured from the centre of its range, can be no larger than 32 * 8 * 127 =
 * 32512. Values are multiplied as they are, from zero, and the sum starts at minus the centre times the sum of x; what
 * overflows on the way comes back, because 16-bit arithmetic is a ring. Two instructions multiply and add 32 pairs, nearly twice
 * what a fused multiply-add does on machines that split 512-bit vectors, and a whole run is exact.
 *
 * <p>Activations are ints that hold the value in both 16-bit lanes, so that one broadcast serves 16-bit lanes.
 */
final class QuantizedTile {
    /** Tokens of a tile. */
    static final int TOKENS = 4;

    /** Activations that share a scale. */
    static final int X_GROUP = Rounding.GROUP;

    private static final int ROWS = Panels.ROWS;
    private static final int SLOTS = QuantizedValues.SLOTS;
    // Not final: of a loop by a step that it knows the compiler makes several, each with long checks of its bounds.
    private static int tokenStep = TOKENS;
    private static final VectorSpecies<Float> FLOATS = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = FLOATS.withLanes(int.class);
    private static final int W = Lanes.WIDTH;

    private QuantizedTile() {}

    /**
     * How the quantized values of a type are multiplied.
     *
     * @param run products that a 16-bit lane adds up
     * @param dRuns the logarithm of how many runs share a scale of w
     * @param shifted whether a weight has a shift
     */
    record Format(int run, int dRuns, boolean shifted) {}

    /**
     * Quantized activations and where their data begins.
     *
     * @param x [k][token]
     * @param biases in x, the first bias of each run
     * @param sums in the scratch, the sums of each group; the scales begin at 0
     */
    record Activations(int[] x, int biases, int sums) {}

    /**
     * Where the unpacked values, scales and shifts of two panels are in the scratch.
     *
     * @param next from the scales and shifts of one panel to those of the other
     */
    record UnpackedPanels(int values, int values2, int scales, int shifts, int next) {
        QuantizedValues.UnpackedPanel first() {
            return new QuantizedValues.UnpackedPanel(values, scales, shifts);
        }
    }

    /**
     * Multiplies four tokens with two unpacked panels: y[token][row] += scale of x * scale of w * the sum over a run of
     * value * x; if weights are shifted, a group adds shift * the sum of its x. Eight sums share four broadcasts.
     *
     * @param xAt where the tile begins in the activations
     * @param depth elements, whole groups of x
     */
    static void tile(
            float[] s,
            Format format,
            Activations activations,
            UnpackedPanels panels,
            int xAt,
            int depth,
            int y,
            int y2) {
        int run = format.run;
        int dRuns = format.dRuns;
        boolean shifted = format.shifted;
        int[] x = activations.x;
        int biases = activations.biases + xAt / run;
        int xs = xAt / X_GROUP;
        int xSums = activations.sums + xs;
        int d = panels.scales;
        int m = panels.shifts;
        int next = panels.next;
        int runs = depth / run;
        int xRuns = Integer.numberOfTrailingZeros(X_GROUP / run);
        for (int part = 0; part < SLOTS; part += W) {
            int p = panels.values + part;
            int p2 = panels.values2 + part;
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
                for (int last = q + run * TOKENS; q < last; p += SLOTS, p2 += SLOTS, q += tokenStep) {
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
                int group = r >> xRuns;
                int token = xs + group * TOKENS;
                int scale = d + (r >> dRuns) * ROWS + part;
                FloatVector d0 = FloatVector.fromArray(FLOATS, s, scale);
                FloatVector d1 = FloatVector.fromArray(FLOATS, s, scale + SLOTS);
                FloatVector d2 = FloatVector.fromArray(FLOATS, s, scale + next);
                FloatVector d3 = FloatVector.fromArray(FLOATS, s, scale + next + SLOTS);
                FloatVector s0 = FloatVector.broadcast(FLOATS, s[token]);
                IntVector a0 = c0.reinterpretAsInts();
                IntVector b0 = e0.reinterpretAsInts();
                FloatVector al0 =
                        (FloatVector) a0.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector ah0 = (FloatVector) a0.lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector bl0 =
                        (FloatVector) b0.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector bh0 = (FloatVector) b0.lanewise(ASHR, 16).convert(I2F, 0);
                f0 = al0.mul(s0).fma(d0, f0);
                g0 = ah0.mul(s0).fma(d1, g0);
                h0 = bl0.mul(s0).fma(d2, h0);
                i0 = bh0.mul(s0).fma(d3, i0);
                FloatVector s1 = FloatVector.broadcast(FLOATS, s[token + 1]);
                IntVector a1 = c1.reinterpretAsInts();
                IntVector b1 = e1.reinterpretAsInts();
                FloatVector al1 =
                        (FloatVector) a1.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector ah1 = (FloatVector) a1.lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector bl1 =
                        (FloatVector) b1.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector bh1 = (FloatVector) b1.lanewise(ASHR, 16).convert(I2F, 0);
                f1 = al1.mul(s1).fma(d0, f1);
                g1 = ah1.mul(s1).fma(d1, g1);
                h1 = bl1.mul(s1).fma(d2, h1);
                i1 = bh1.mul(s1).fma(d3, i1);
                FloatVector s2 = FloatVector.broadcast(FLOATS, s[token + 2]);
                IntVector a2 = c2.reinterpretAsInts();
                IntVector b2 = e2.reinterpretAsInts();
                FloatVector al2 =
                        (FloatVector) a2.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector ah2 = (FloatVector) a2.lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector bl2 =
                        (FloatVector) b2.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector bh2 = (FloatVector) b2.lanewise(ASHR, 16).convert(I2F, 0);
                f2 = al2.mul(s2).fma(d0, f2);
                g2 = ah2.mul(s2).fma(d1, g2);
                h2 = bl2.mul(s2).fma(d2, h2);
                i2 = bh2.mul(s2).fma(d3, i2);
                FloatVector s3 = FloatVector.broadcast(FLOATS, s[token + 3]);
                IntVector a3 = c3.reinterpretAsInts();
                IntVector b3 = e3.reinterpretAsInts();
                FloatVector al3 =
                        (FloatVector) a3.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector ah3 = (FloatVector) a3.lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector bl3 =
                        (FloatVector) b3.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector bh3 = (FloatVector) b3.lanewise(ASHR, 16).convert(I2F, 0);
                f3 = al3.mul(s3).fma(d0, f3);
                g3 = ah3.mul(s3).fma(d1, g3);
                h3 = bl3.mul(s3).fma(d2, h3);
                i3 = bh3.mul(s3).fma(d3, i3);
                if (shifted && r + 1 >> xRuns > group) {
                    int shift = m + group * ROWS + part;
                    int sum = xSums + group * TOKENS;
                    FloatVector m0 = FloatVector.fromArray(FLOATS, s, shift);
                    FloatVector m1 = FloatVector.fromArray(FLOATS, s, shift + SLOTS);
                    FloatVector m2 = FloatVector.fromArray(FLOATS, s, shift + next);
                    FloatVector m3 = FloatVector.fromArray(FLOATS, s, shift + next + SLOTS);
                    FloatVector t0 = FloatVector.broadcast(FLOATS, s[sum]);
                    f0 = m0.fma(t0, f0);
                    g0 = m1.fma(t0, g0);
                    h0 = m2.fma(t0, h0);
                    i0 = m3.fma(t0, i0);
                    FloatVector t1 = FloatVector.broadcast(FLOATS, s[sum + 1]);
                    f1 = m0.fma(t1, f1);
                    g1 = m1.fma(t1, g1);
                    h1 = m2.fma(t1, h1);
                    i1 = m3.fma(t1, i1);
                    FloatVector t2 = FloatVector.broadcast(FLOATS, s[sum + 2]);
                    f2 = m0.fma(t2, f2);
                    g2 = m1.fma(t2, g2);
                    h2 = m2.fma(t2, h2);
                    i2 = m3.fma(t2, i2);
                    FloatVector t3 = FloatVector.broadcast(FLOATS, s[sum + 3]);
                    f3 = m0.fma(t3, f3);
                    g3 = m1.fma(t3, g3);
                    h3 = m2.fma(t3, h3);
                    i3 = m3.fma(t3, i3);
                }
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

    /** Multiplies one token with the 32 rows of the first unpacked panel; the arithmetic of {@link #tile}. */
    static void dot(
            float[] s, Format format, Activations activations, UnpackedPanels panels, int xAt, int depth, int y) {
        int run = format.run;
        int dRuns = format.dRuns;
        boolean shifted = format.shifted;
        int[] x = activations.x;
        int biases = activations.biases + xAt / run;
        int xs = xAt / X_GROUP;
        int xSums = activations.sums + xs;
        int d = panels.scales;
        int m = panels.shifts;
        int runs = depth / run;
        int xRuns = Integer.numberOfTrailingZeros(X_GROUP / run);
        for (int part = 0; part < SLOTS; part += W) {
            int w = panels.values + part;
            int p = xAt;
            FloatVector f = FloatVector.fromArray(FLOATS, s, y + part);
            FloatVector g = FloatVector.fromArray(FLOATS, s, y + SLOTS + part);
            for (int r = 0; r < runs; r++) {
                ShortVector c = IntVector.broadcast(INTS, x[biases + r]).reinterpretAsShorts();
                for (int k = 0; k < run; k++, w += SLOTS, p++) {
                    ShortVector v = FloatVector.fromArray(FLOATS, s, w).reinterpretAsShorts();
                    c = c.add(v.mul(IntVector.broadcast(INTS, x[p]).reinterpretAsShorts()));
                }
                int group = r >> xRuns;
                int scale = d + (r >> dRuns) * ROWS + part;
                FloatVector each = FloatVector.broadcast(FLOATS, s[xs + group]);
                IntVector a = c.reinterpretAsInts();
                FloatVector a0 =
                        (FloatVector) a.lanewise(LSHL, 16).lanewise(ASHR, 16).convert(I2F, 0);
                FloatVector a1 = (FloatVector) a.lanewise(ASHR, 16).convert(I2F, 0);
                f = a0.mul(each).fma(FloatVector.fromArray(FLOATS, s, scale), f);
                g = a1.mul(each).fma(FloatVector.fromArray(FLOATS, s, scale + SLOTS), g);
                if (shifted && r + 1 >> xRuns > group) {
                    int shift = m + group * ROWS + part;
                    FloatVector sum = FloatVector.broadcast(FLOATS, s[xSums + group]);
                    f = FloatVector.fromArray(FLOATS, s, shift).fma(sum, f);
                    g = FloatVector.fromArray(FLOATS, s, shift + SLOTS).fma(sum, g);
                }
            }
            f.intoArray(s, y + part);
            g.intoArray(s, y + SLOTS + part);
        }
    }
}
