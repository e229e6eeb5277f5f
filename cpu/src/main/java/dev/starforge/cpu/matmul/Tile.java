package dev.starforge.cpu.matmul;

import dev.starforge.cpu.core.Lanes;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * The innermost loops of matrix products: outer products that keep a small tile of the result in registers. One operand
 * is read a number at a time and spread over a vector, the other is a panel of vectors; every result is one chain of fused
 * multiply-adds over k, starting at zero, and is added to what is there. Lanes are independent, so neither the
 * width of the machine nor what else is in the tile can change a result. Both tiles keep at most fifteen vectors alive, so
 * that machines with sixteen registers run them too.
 *
 * <p>Element (r, k) of the first operand is at {@code u + r * rowStep + k * kStep}.
 */
public final class Tile {
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;

    /** Lanes of a wide panel. */
    static final int PANEL = 2 * W;

    static final int WIDE_ROWS = 6;
    public static final int NARROW_ROWS = 12;

    private Tile() {}

    /**
     * The strides of a wide tile and its number of chains, constant for each kind of product.
     *
     * @param row from one row of u to the next
     * @param k from one element of a row of u to the next
     * @param v from one row of v to the next
     * @param chains terms k are summed in this number of chains
     * @param c from one row of c to the next
     */
    record Strides(int row, int k, int v, int chains, int c) {}

    /**
     * c[r][lane] += the chains over k of u[r][k] * v[k][lane], one after the other, for 6 rows and two vectors of lanes: the
     * tile for matrices, which runs at the speed of the multipliers. Term k belongs to chain k mod {@code chains}; v holds
     * the terms of a chain together, chain after chain.
     */
    static void wide(float[] s, int u, int v, int depth, int c, Strides strides) {
        int rowStep = strides.row;
        int kStep = strides.k;
        int vStep = strides.v;
        int chains = strides.chains;
        int cStep = strides.c;
        int u1 = u + rowStep;
        int u2 = u1 + rowStep;
        int u3 = u2 + rowStep;
        int u4 = u3 + rowStep;
        int u5 = u4 + rowStep;
        FloatVector y0a = FloatVector.fromArray(SPECIES, s, c);
        FloatVector y0b = FloatVector.fromArray(SPECIES, s, c + W);
        FloatVector y1a = FloatVector.fromArray(SPECIES, s, c + cStep);
        FloatVector y1b = FloatVector.fromArray(SPECIES, s, c + cStep + W);
        FloatVector y2a = FloatVector.fromArray(SPECIES, s, c + 2 * cStep);
        FloatVector y2b = FloatVector.fromArray(SPECIES, s, c + 2 * cStep + W);
        FloatVector y3a = FloatVector.fromArray(SPECIES, s, c + 3 * cStep);
        FloatVector y3b = FloatVector.fromArray(SPECIES, s, c + 3 * cStep + W);
        FloatVector y4a = FloatVector.fromArray(SPECIES, s, c + 4 * cStep);
        FloatVector y4b = FloatVector.fromArray(SPECIES, s, c + 4 * cStep + W);
        FloatVector y5a = FloatVector.fromArray(SPECIES, s, c + 5 * cStep);
        FloatVector y5b = FloatVector.fromArray(SPECIES, s, c + 5 * cStep + W);
        int p = v;
        for (int chain = 0; chain < chains; chain++) {
            FloatVector c0a = FloatVector.zero(SPECIES);
            FloatVector c0b = c0a;
            FloatVector c1a = c0a;
            FloatVector c1b = c0a;
            FloatVector c2a = c0a;
            FloatVector c2b = c0a;
            FloatVector c3a = c0a;
            FloatVector c3b = c0a;
            FloatVector c4a = c0a;
            FloatVector c4b = c0a;
            FloatVector c5a = c0a;
            FloatVector c5b = c0a;
            for (int k = chain; k < depth; k += chains, p += vStep) {
                int at = k * kStep;
                FloatVector a = FloatVector.fromArray(SPECIES, s, p);
                FloatVector b = FloatVector.fromArray(SPECIES, s, p + W);
                FloatVector x0 = FloatVector.broadcast(SPECIES, s[u + at]);
                c0a = x0.fma(a, c0a);
                c0b = x0.fma(b, c0b);
                FloatVector x1 = FloatVector.broadcast(SPECIES, s[u1 + at]);
                c1a = x1.fma(a, c1a);
                c1b = x1.fma(b, c1b);
                FloatVector x2 = FloatVector.broadcast(SPECIES, s[u2 + at]);
                c2a = x2.fma(a, c2a);
                c2b = x2.fma(b, c2b);
                FloatVector x3 = FloatVector.broadcast(SPECIES, s[u3 + at]);
                c3a = x3.fma(a, c3a);
                c3b = x3.fma(b, c3b);
                FloatVector x4 = FloatVector.broadcast(SPECIES, s[u4 + at]);
                c4a = x4.fma(a, c4a);
                c4b = x4.fma(b, c4b);
                FloatVector x5 = FloatVector.broadcast(SPECIES, s[u5 + at]);
                c5a = x5.fma(a, c5a);
                c5b = x5.fma(b, c5b);
            }
            y0a = y0a.add(c0a);
            y0b = y0b.add(c0b);
            y1a = y1a.add(c1a);
            y1b = y1b.add(c1b);
            y2a = y2a.add(c2a);
            y2b = y2b.add(c2b);
            y3a = y3a.add(c3a);
            y3b = y3b.add(c3b);
            y4a = y4a.add(c4a);
            y4b = y4b.add(c4b);
            y5a = y5a.add(c5a);
            y5b = y5b.add(c5b);
        }
        y0a.intoArray(s, c);
        y0b.intoArray(s, c + W);
        y1a.intoArray(s, c + cStep);
        y1b.intoArray(s, c + cStep + W);
        y2a.intoArray(s, c + 2 * cStep);
        y2b.intoArray(s, c + 2 * cStep + W);
        y3a.intoArray(s, c + 3 * cStep);
        y3b.intoArray(s, c + 3 * cStep + W);
        y4a.intoArray(s, c + 4 * cStep);
        y4b.intoArray(s, c + 4 * cStep + W);
        y5a.intoArray(s, c + 5 * cStep);
        y5b.intoArray(s, c + 5 * cStep + W);
    }

    /**
     * The same for 12 rows and one vector of lanes: three quarters of the speed, but half the waste where there are only a few
     * lanes to fill, as in attention for one token.
     */
    public static void narrow(float[] s, int u, int rowStep, int kStep, int v, int depth, int c) {
        int u1 = u + rowStep;
        int u2 = u1 + rowStep;
        int u3 = u2 + rowStep;
        int u4 = u3 + rowStep;
        int u5 = u4 + rowStep;
        int u6 = u5 + rowStep;
        int u7 = u6 + rowStep;
        int u8 = u7 + rowStep;
        int u9 = u8 + rowStep;
        int u10 = u9 + rowStep;
        int u11 = u10 + rowStep;
        FloatVector c0 = FloatVector.zero(SPECIES);
        FloatVector c1 = c0;
        FloatVector c2 = c0;
        FloatVector c3 = c0;
        FloatVector c4 = c0;
        FloatVector c5 = c0;
        FloatVector c6 = c0;
        FloatVector c7 = c0;
        FloatVector c8 = c0;
        FloatVector c9 = c0;
        FloatVector c10 = c0;
        FloatVector c11 = c0;
        for (int k = 0; k < depth; k++) {
            int at = k * kStep;
            FloatVector a = FloatVector.fromArray(SPECIES, s, v + k * W);
            c0 = FloatVector.broadcast(SPECIES, s[u + at]).fma(a, c0);
            c1 = FloatVector.broadcast(SPECIES, s[u1 + at]).fma(a, c1);
            c2 = FloatVector.broadcast(SPECIES, s[u2 + at]).fma(a, c2);
            c3 = FloatVector.broadcast(SPECIES, s[u3 + at]).fma(a, c3);
            c4 = FloatVector.broadcast(SPECIES, s[u4 + at]).fma(a, c4);
            c5 = FloatVector.broadcast(SPECIES, s[u5 + at]).fma(a, c5);
            c6 = FloatVector.broadcast(SPECIES, s[u6 + at]).fma(a, c6);
            c7 = FloatVector.broadcast(SPECIES, s[u7 + at]).fma(a, c7);
            c8 = FloatVector.broadcast(SPECIES, s[u8 + at]).fma(a, c8);
            c9 = FloatVector.broadcast(SPECIES, s[u9 + at]).fma(a, c9);
            c10 = FloatVector.broadcast(SPECIES, s[u10 + at]).fma(a, c10);
            c11 = FloatVector.broadcast(SPECIES, s[u11 + at]).fma(a, c11);
        }
        FloatVector.fromArray(SPECIES, s, c).add(c0).intoArray(s, c);
        FloatVector.fromArray(SPECIES, s, c + W).add(c1).intoArray(s, c + W);
        FloatVector.fromArray(SPECIES, s, c + 2 * W).add(c2).intoArray(s, c + 2 * W);
        FloatVector.fromArray(SPECIES, s, c + 3 * W).add(c3).intoArray(s, c + 3 * W);
        FloatVector.fromArray(SPECIES, s, c + 4 * W).add(c4).intoArray(s, c + 4 * W);
        FloatVector.fromArray(SPECIES, s, c + 5 * W).add(c5).intoArray(s, c + 5 * W);
        FloatVector.fromArray(SPECIES, s, c + 6 * W).add(c6).intoArray(s, c + 6 * W);
        FloatVector.fromArray(SPECIES, s, c + 7 * W).add(c7).intoArray(s, c + 7 * W);
        FloatVector.fromArray(SPECIES, s, c + 8 * W).add(c8).intoArray(s, c + 8 * W);
        FloatVector.fromArray(SPECIES, s, c + 9 * W).add(c9).intoArray(s, c + 9 * W);
        FloatVector.fromArray(SPECIES, s, c + 10 * W).add(c10).intoArray(s, c + 10 * W);
        FloatVector.fromArray(SPECIES, s, c + 11 * W).add(c11).intoArray(s, c + 11 * W);
    }
}
