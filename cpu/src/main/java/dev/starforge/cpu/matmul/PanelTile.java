package dev.starforge.cpu.matmul;

import static java.nio.ByteOrder.LITTLE_ENDIAN;
import static jdk.incubator.vector.VectorOperators.ASHR;
import static jdk.incubator.vector.VectorOperators.I2F;
import static jdk.incubator.vector.VectorOperators.LSHL;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Panels;
import java.lang.foreign.MemorySegment;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Matmuls of float activations with float weights in panels, 32 rows for each k. Every result is one chain of fused
 * multiply-adds over the stretch of k, starting at zero, and is added to what is there: a token has the same bits alone
 * and among others.
 */
final class PanelTile {
    /** Tokens of a tile. */
    static final int TOKENS = 12;

    private static final int ROWS = Panels.ROWS;
    private static final int HALF = ROWS / 2;
    private static final Tile.Strides STRIDES = new Tile.Strides(1, TOKENS, ROWS, 1, ROWS);
    private static final int SCALES = Short.BYTES * ROWS; // bytes before the quantized values of a Q8_0 block
    private static final VectorSpecies<Float> FLOATS = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = FLOATS.withLanes(int.class);
    private static final int W = Lanes.WIDTH;

    private PanelTile() {}

    /** y[token][row] += the chain over k of x[k][token] * w[k][row]. */
    static void tile(float[] s, int x, int w, int depth, int y) {
        for (int part = 0; part < ROWS; part += 2 * W) {
            if (W == 16) {
                broad(s, x, w, depth, y);
            } else {
                Tile.wide(s, x, w + part, depth, y + part, STRIDES);
                Tile.wide(s, x + 6, w + part, depth, y + part + 6 * ROWS, STRIDES);
            }
        }
    }

    /** Twenty-four sums and their operands fill the registers of a machine that has 32. */
    private static void broad(float[] s, int x, int w, int depth, int y) {
        FloatVector zero = FloatVector.zero(FLOATS);
        FloatVector a0 = zero;
        FloatVector b0 = zero;
        FloatVector a1 = zero;
        FloatVector b1 = zero;
        FloatVector a2 = zero;
        FloatVector b2 = zero;
        FloatVector a3 = zero;
        FloatVector b3 = zero;
        FloatVector a4 = zero;
        FloatVector b4 = zero;
        FloatVector a5 = zero;
        FloatVector b5 = zero;
        FloatVector a6 = zero;
        FloatVector b6 = zero;
        FloatVector a7 = zero;
        FloatVector b7 = zero;
        FloatVector a8 = zero;
        FloatVector b8 = zero;
        FloatVector a9 = zero;
        FloatVector b9 = zero;
        FloatVector a10 = zero;
        FloatVector b10 = zero;
        FloatVector a11 = zero;
        FloatVector b11 = zero;
        int p = x;
        int q = w;
        for (int k = 0; k < depth; k++, p += TOKENS, q += ROWS) {
            FloatVector v = FloatVector.fromArray(FLOATS, s, q);
            FloatVector u = FloatVector.fromArray(FLOATS, s, q + W);
            FloatVector x0 = FloatVector.broadcast(FLOATS, s[p]);
            a0 = x0.fma(v, a0);
            b0 = x0.fma(u, b0);
            FloatVector x1 = FloatVector.broadcast(FLOATS, s[p + 1]);
            a1 = x1.fma(v, a1);
            b1 = x1.fma(u, b1);
            FloatVector x2 = FloatVector.broadcast(FLOATS, s[p + 2]);
            a2 = x2.fma(v, a2);
            b2 = x2.fma(u, b2);
            FloatVector x3 = FloatVector.broadcast(FLOATS, s[p + 3]);
            a3 = x3.fma(v, a3);
            b3 = x3.fma(u, b3);
            FloatVector x4 = FloatVector.broadcast(FLOATS, s[p + 4]);
            a4 = x4.fma(v, a4);
            b4 = x4.fma(u, b4);
            FloatVector x5 = FloatVector.broadcast(FLOATS, s[p + 5]);
            a5 = x5.fma(v, a5);
            b5 = x5.fma(u, b5);
            FloatVector x6 = FloatVector.broadcast(FLOATS, s[p + 6]);
            a6 = x6.fma(v, a6);
            b6 = x6.fma(u, b6);
            FloatVector x7 = FloatVector.broadcast(FLOATS, s[p + 7]);
            a7 = x7.fma(v, a7);
            b7 = x7.fma(u, b7);
            FloatVector x8 = FloatVector.broadcast(FLOATS, s[p + 8]);
            a8 = x8.fma(v, a8);
            b8 = x8.fma(u, b8);
            FloatVector x9 = FloatVector.broadcast(FLOATS, s[p + 9]);
            a9 = x9.fma(v, a9);
            b9 = x9.fma(u, b9);
            FloatVector x10 = FloatVector.broadcast(FLOATS, s[p + 10]);
            a10 = x10.fma(v, a10);
            b10 = x10.fma(u, b10);
            FloatVector x11 = FloatVector.broadcast(FLOATS, s[p + 11]);
            a11 = x11.fma(v, a11);
            b11 = x11.fma(u, b11);
        }
        FloatVector.fromArray(FLOATS, s, y).add(a0).intoArray(s, y);
        FloatVector.fromArray(FLOATS, s, y + W).add(b0).intoArray(s, y + W);
        FloatVector.fromArray(FLOATS, s, y + 1 * ROWS).add(a1).intoArray(s, y + 1 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 1 * ROWS + W).add(b1).intoArray(s, y + 1 * ROWS + W);
        FloatVector.fromArray(FLOATS, s, y + 2 * ROWS).add(a2).intoArray(s, y + 2 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 2 * ROWS + W).add(b2).intoArray(s, y + 2 * ROWS + W);
        FloatVector.fromArray(FLOATS, s, y + 3 * ROWS).add(a3).intoArray(s, y + 3 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 3 * ROWS + W).add(b3).intoArray(s, y + 3 * ROWS + W);
        FloatVector.fromArray(FLOATS, s, y + 4 * ROWS).add(a4).intoArray(s, y + 4 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 4 * ROWS + W).add(b4).intoArray(s, y + 4 * ROWS + W);
        FloatVector.fromArray(FLOATS, s, y + 5 * ROWS).add(a5).intoArray(s, y + 5 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 5 * ROWS + W).add(b5).intoArray(s, y + 5 * ROWS + W);
        FloatVector.fromArray(FLOATS, s, y + 6 * ROWS).add(a6).intoArray(s, y + 6 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 6 * ROWS + W).add(b6).intoArray(s, y + 6 * ROWS + W);
        FloatVector.fromArray(FLOATS, s, y + 7 * ROWS).add(a7).intoArray(s, y + 7 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 7 * ROWS + W).add(b7).intoArray(s, y + 7 * ROWS + W);
        FloatVector.fromArray(FLOATS, s, y + 8 * ROWS).add(a8).intoArray(s, y + 8 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 8 * ROWS + W).add(b8).intoArray(s, y + 8 * ROWS + W);
        FloatVector.fromArray(FLOATS, s, y + 9 * ROWS).add(a9).intoArray(s, y + 9 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 9 * ROWS + W).add(b9).intoArray(s, y + 9 * ROWS + W);
        FloatVector.fromArray(FLOATS, s, y + 10 * ROWS).add(a10).intoArray(s, y + 10 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 10 * ROWS + W).add(b10).intoArray(s, y + 10 * ROWS + W);
        FloatVector.fromArray(FLOATS, s, y + 11 * ROWS).add(a11).intoArray(s, y + 11 * ROWS);
        FloatVector.fromArray(FLOATS, s, y + 11 * ROWS + W).add(b11).intoArray(s, y + 11 * ROWS + W);
    }

    /** Multiplies one token, whose x are consecutive. */
    static void dot(float[] s, int x, int w, int depth, int y) {
        for (int part = 0; part < ROWS; part += 2 * W) {
            FloatVector a = FloatVector.zero(FLOATS);
            FloatVector b = a;
            int q = w + part;
            for (int k = 0; k < depth; k++, q += ROWS) {
                FloatVector v = FloatVector.broadcast(FLOATS, s[x + k]);
                a = v.fma(FloatVector.fromArray(FLOATS, s, q), a);
                b = v.fma(FloatVector.fromArray(FLOATS, s, q + W), b);
            }
            FloatVector.fromArray(FLOATS, s, y + part).add(a).intoArray(s, y + part);
            FloatVector.fromArray(FLOATS, s, y + part + W).add(b).intoArray(s, y + part + W);
        }
    }

    /**
     * A stretch of two panels of signed bytes in memory.
     *
     * @param end of the first panel's stretch
     * @param next from one panel to the other
     */
    record BytePanels(MemorySegment segment, long from, long end, long next) {}

    /**
     * Decoded scales in the scratch.
     *
     * @param group elements that share a scale; 0 if the scales are in the panel before each 32 elements, as in Q8_0
     * @param next from the scales of one panel to those of the other
     */
    record GroupScales(int group, int at, int next) {}

    /** Multiplies one token with two panels of signed bytes in place, with a chain of sums for every {@code depth} elements. */
    static void bytes(BytePanels panels, GroupScales scales, int depth, float[] s, int x, int y) {
        MemorySegment w = panels.segment;
        long off = panels.next;
        long end = panels.end;
        int group = scales.group;
        int next = scales.next;
        for (int part = 0; part < HALF; part += W) {
            int to = y + part;
            FloatVector f0 = FloatVector.fromArray(FLOATS, s, to);
            FloatVector f1 = FloatVector.fromArray(FLOATS, s, to + HALF);
            FloatVector g0 = FloatVector.fromArray(FLOATS, s, to + ROWS);
            FloatVector g1 = FloatVector.fromArray(FLOATS, s, to + ROWS + HALF);
            FloatVector a0 = FloatVector.zero(FLOATS);
            FloatVector a1 = a0;
            FloatVector b0 = a0;
            FloatVector b1 = a0;
            int q = x;
            for (long p = panels.from + 4 * part; p < end; ) {
                FloatVector d0;
                FloatVector d1;
                FloatVector e0;
                FloatVector e1;
                if (group == 0) {
                    IntVector h = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                    IntVector h2 = IntVector.fromMemorySegment(INTS, w, p + off, LITTLE_ENDIAN);
                    p += SCALES;
                    IntVector low = h.lanewise(LSHL, 16).lanewise(ASHR, 3).and(QuantizedValues.F16_BITS);
                    IntVector low2 = h2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(QuantizedValues.F16_BITS);
                    IntVector high = h.lanewise(ASHR, 3).and(QuantizedValues.F16_BITS);
                    IntVector high2 = h2.lanewise(ASHR, 3).and(QuantizedValues.F16_BITS);
                    d0 = low.reinterpretAsFloats().mul(QuantizedValues.TWO_TO_112);
                    d1 = high.reinterpretAsFloats().mul(QuantizedValues.TWO_TO_112);
                    e0 = low2.reinterpretAsFloats().mul(QuantizedValues.TWO_TO_112);
                    e1 = high2.reinterpretAsFloats().mul(QuantizedValues.TWO_TO_112);
                } else {
                    int scale = scales.at + (q - x) / group * ROWS + part;
                    d0 = FloatVector.fromArray(FLOATS, s, scale);
                    d1 = FloatVector.fromArray(FLOATS, s, scale + HALF);
                    e0 = FloatVector.fromArray(FLOATS, s, scale + next);
                    e1 = FloatVector.fromArray(FLOATS, s, scale + next + HALF);
                }
                for (long last = p + 32 * ROWS; p < last; p += 4 * ROWS, q += 4) {
                    IntVector v0 = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                    IntVector v1 = IntVector.fromMemorySegment(INTS, w, p + 4 * HALF, LITTLE_ENDIAN);
                    IntVector u0 = IntVector.fromMemorySegment(INTS, w, p + off, LITTLE_ENDIAN);
                    IntVector u1 = IntVector.fromMemorySegment(INTS, w, p + off + 4 * HALF, LITTLE_ENDIAN);
                    FloatVector x0 = FloatVector.broadcast(FLOATS, s[q]);
                    a0 = ((FloatVector) v0.lanewise(LSHL, 24).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(d0)
                            .fma(x0, a0);
                    a1 = ((FloatVector) v1.lanewise(LSHL, 24).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(d1)
                            .fma(x0, a1);
                    b0 = ((FloatVector) u0.lanewise(LSHL, 24).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(e0)
                            .fma(x0, b0);
                    b1 = ((FloatVector) u1.lanewise(LSHL, 24).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(e1)
                            .fma(x0, b1);
                    FloatVector x1 = FloatVector.broadcast(FLOATS, s[q + 1]);
                    a0 = ((FloatVector) v0.lanewise(LSHL, 16).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(d0)
                            .fma(x1, a0);
                    a1 = ((FloatVector) v1.lanewise(LSHL, 16).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(d1)
                            .fma(x1, a1);
                    b0 = ((FloatVector) u0.lanewise(LSHL, 16).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(e0)
                            .fma(x1, b0);
                    b1 = ((FloatVector) u1.lanewise(LSHL, 16).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(e1)
                            .fma(x1, b1);
                    FloatVector x2 = FloatVector.broadcast(FLOATS, s[q + 2]);
                    a0 = ((FloatVector) v0.lanewise(LSHL, 8).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(d0)
                            .fma(x2, a0);
                    a1 = ((FloatVector) v1.lanewise(LSHL, 8).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(d1)
                            .fma(x2, a1);
                    b0 = ((FloatVector) u0.lanewise(LSHL, 8).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(e0)
                            .fma(x2, b0);
                    b1 = ((FloatVector) u1.lanewise(LSHL, 8).lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(e1)
                            .fma(x2, b1);
                    FloatVector x3 = FloatVector.broadcast(FLOATS, s[q + 3]);
                    a0 = ((FloatVector) v0.lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(d0)
                            .fma(x3, a0);
                    a1 = ((FloatVector) v1.lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(d1)
                            .fma(x3, a1);
                    b0 = ((FloatVector) u0.lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(e0)
                            .fma(x3, b0);
                    b1 = ((FloatVector) u1.lanewise(ASHR, 24).convert(I2F, 0))
                            .mul(e1)
                            .fma(x3, b1);
                }
                if ((q - x & depth - 1) == 0 || p >= end) {
                    f0 = f0.add(a0);
                    f1 = f1.add(a1);
                    g0 = g0.add(b0);
                    g1 = g1.add(b1);
                    a0 = FloatVector.zero(FLOATS);
                    a1 = a0;
                    b0 = a0;
                    b1 = a0;
                }
            }
            f0.intoArray(s, to);
            f1.intoArray(s, to + HALF);
            g0.intoArray(s, to + ROWS);
            g1.intoArray(s, to + ROWS + HALF);
        }
    }
}
