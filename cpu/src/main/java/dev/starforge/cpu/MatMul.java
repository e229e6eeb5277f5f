package dev.starforge.cpu;

import static java.nio.ByteOrder.LITTLE_ENDIAN;

import dev.starforge.tensor.DType;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Matrix products in packed panels, after Goto and van de Geijn 2008, with one order of summation for every path: k is cut
 * into equal blocks of at most 512; within a block, term k belongs to chain k mod 16, a sequence of fused multiply-adds;
 * the chains of all blocks are added one after the other. This order follows from K alone. Tiles of a large product keep
 * it because a tile computes whole chains; the product of a single row keeps it because sixteen neighbours along k are
 * sixteen chains, so that it can read a weight of shape [N, K] as it lies in memory, at the speed of memory. A row
 * therefore has the same bits alone, in a batch, and on any machine.
 *
 * <p>One operand fills the lanes (v, packed once and shared), the other is spread over them (u, fetched by each chunk).
 * With a transposed b, whose rows run along k, b is spread and a fills the lanes, and the result comes out transposed:
 * only the small operand needs to be turned. Otherwise b fills the lanes.
 */
final class MatMul implements Product {
    /** Rows of a that are worth the path without panels. */
    private static final int FEW = 8;

    private static final int CHAINS = 16;
    private static final int DEPTH = 512;
    private static final int STRIDE = DEPTH + 8; // rows of a tile start in different sets of the cache
    private static final int ROWS = 48;
    private static final int LANES = 256;
    private static final int DOTS = 4;
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final int PANEL = Tile.PANEL;

    private final long m;
    private final long n;
    private final long k;
    private final int depth;
    private final boolean few;
    private final boolean turned; // the result is computed transposed
    private final boolean uAlongK; // rows of u are contiguous
    private final boolean vAlongK;
    private final long nu;
    private final long nv;

    /** op(a) of [m, k] times op(b) of [k, n]. */
    MatMul(boolean ta, boolean tb, long m, long n, long k) {
        this.m = m;
        this.n = n;
        this.k = k;
        long blocks = Math.max(1, Workers.count(k, DEPTH));
        depth = Math.max(CHAINS, Lanes.pad(Workers.count(k, blocks), CHAINS));
        few = m <= FEW && tb && !ta;
        turned = tb;
        uAlongK = tb || !ta;
        vAlongK = tb && !ta;
        nu = turned ? n : m;
        nv = turned ? m : n;
    }

    private int lanes() {
        return Lanes.pad(Math.min(nv, LANES), PANEL);
    }

    @Override
    public Scratch scratch() {
        return few
                ? new Scratch(m * k, DOTS * STRIDE + DOTS * CHAINS + m * ROWS)
                : new Scratch(k * lanes(), ROWS * STRIDE + (long) ROWS * lanes() + DEPTH);
    }

    @Override
    public void run(Workers workers, View a, long fromA, View b, long fromB, View c, long fromC) {
        if (few) {
            workers.run(1, (chunk, s, at) -> a.load(fromA, Math.toIntExact(m * k), s, 0));
            workers.run(Workers.count(n, ROWS), (chunk, s, at) -> dots(b, fromB, c, fromC, chunk * ROWS, s, at));
            return;
        }
        View u = turned ? b : a;
        View v = turned ? a : b;
        long fromU = turned ? fromB : fromA;
        long fromV = turned ? fromA : fromB;
        for (long lane = 0; lane < nv; lane += LANES) {
            long lane0 = lane;
            int panels = Lanes.pad(Math.min(LANES, nv - lane), PANEL) / PANEL;
            workers.run(
                    Workers.count(k, depth) * panels,
                    (chunk, s, at) ->
                            pack(v, fromV, lane0, (int) (chunk % panels), panels, chunk / panels * depth, s, at));
            workers.run(
                    Workers.count(nu, ROWS),
                    (chunk, s, at) -> tile(u, fromU, c, fromC, chunk * ROWS, lane0, panels, s, at));
        }
    }

    /** Terms k0..k0+depth of a block that belong to one chain. */
    private static int chain(int depth, int chain) {
        return (depth - chain + CHAINS - 1) / CHAINS;
    }

    /** One panel of one block into the shared scratch: [block][panel][chain after chain][lane]. */
    private void pack(View v, long from, long lane0, int panel, int panels, long k0, float[] s, int at) {
        int block = (int) Math.min(depth, k - k0);
        int to = (int) k0 * panels * PANEL + panel * block * PANEL;
        long lane = lane0 + panel * PANEL;
        int lanes = (int) Math.min(PANEL, nv - lane);
        if (lanes < PANEL) {
            Arrays.fill(s, to, to + block * PANEL, 0);
        }
        if (vAlongK) {
            for (int i = 0; i < lanes; i++) {
                v.load(from + (lane + i) * k + k0, block, s, at);
                int q = to + i;
                for (int chain = 0; chain < CHAINS; chain++) {
                    for (int j = at + chain; j < at + block; j += CHAINS) {
                        s[q] = s[j];
                        q += PANEL;
                    }
                }
            }
            return;
        }
        int q = to;
        for (int chain = 0; chain < CHAINS; chain++) {
            for (int j = chain; j < block; j += CHAINS) {
                v.load(from + (k0 + j) * nv + lane, lanes, s, q);
                q += PANEL;
            }
        }
    }

    /** All lanes of the panels for up to {@link #ROWS} rows of u: first summed as [panel][row][lane], then stored. */
    private void tile(View u, long fromU, View c, long fromC, long row0, long lane0, int panels, float[] s, int at) {
        int rows = (int) Math.min(ROWS, nu - row0);
        int sums = at + ROWS * STRIDE;
        int strip = sums + ROWS * lanes();
        Arrays.fill(s, sums, sums + panels * ROWS * PANEL, 0);
        for (long k0 = 0; k0 < k; k0 += depth) {
            int block = (int) Math.min(depth, k - k0);
            fetch(u, fromU, row0, rows, k0, block, s, at, strip);
            for (int panel = 0; panel < panels; panel++) {
                int v = (int) k0 * panels * PANEL + panel * block * PANEL;
                for (int row = 0; row < rows; row += Tile.WIDE_ROWS) {
                    int q = v;
                    for (int chain = 0; chain < CHAINS; chain++) {
                        int length = chain(block, chain);
                        int to = sums + (panel * ROWS + row) * PANEL;
                        Tile.wide(s, at + row * STRIDE + chain, STRIDE, CHAINS, q, PANEL, length, to, PANEL);
                        q += length * PANEL;
                    }
                }
            }
        }
        int lanes = (int) Math.min(panels * PANEL, nv - lane0);
        if (turned) {
            for (int lane = 0; lane < lanes; lane++) {
                int from = sums + lane / PANEL * ROWS * PANEL + lane % PANEL;
                for (int row = 0; row < rows; row++) {
                    s[strip + row] = s[from + row * PANEL];
                }
                c.store(fromC + (lane0 + lane) * nu + row0, rows, s, strip);
            }
            return;
        }
        for (int row = 0; row < rows; row++) {
            for (int panel = 0; panel < panels; panel++) {
                System.arraycopy(s, sums + (panel * ROWS + row) * PANEL, s, strip + panel * PANEL, PANEL);
            }
            c.store(fromC + (row0 + row) * nv + lane0, lanes, s, strip);
        }
    }

    /** Rows of u, a block long, at a distance of {@link #STRIDE}. */
    private void fetch(View u, long from, long row0, int rows, long k0, int block, float[] s, int at, int strip) {
        if (uAlongK) {
            for (int row = 0; row < rows; row++) {
                u.load(from + (row0 + row) * k + k0, block, s, at + row * STRIDE);
            }
            return;
        }
        for (int j = 0; j < block; j++) {
            u.load(from + (k0 + j) * nu + row0, rows, s, strip);
            for (int row = 0; row < rows; row++) {
                s[at + row * STRIDE + j] = s[strip + row];
            }
        }
    }

    /** The few rows of a, all in the shared scratch, times up to {@link #ROWS} rows of b as they lie in memory. */
    private void dots(View b, long fromB, View c, long fromC, long row0, float[] s, int at) {
        int rows = (int) Math.min(ROWS, n - row0);
        int lanes = at + DOTS * STRIDE;
        int sums = lanes + DOTS * CHAINS;
        Arrays.fill(s, sums, sums + (int) m * ROWS, 0);
        for (int row = 0; row < rows; row += DOTS) {
            int dots = Math.min(DOTS, rows - row);
            for (long k0 = 0; k0 < k; k0 += depth) {
                int block = (int) Math.min(depth, k - k0);
                boolean inPlace = b.dtype == DType.F32 && dots == DOTS;
                for (int i = 0; i < dots && !inPlace; i++) {
                    b.load(fromB + (row0 + row + i) * k + k0, block, s, at + i * STRIDE);
                }
                for (int x = 0; x < m; x++) {
                    if (inPlace) {
                        long from = Float.BYTES * (fromB + (row0 + row) * k + k0);
                        chains(s, (int) (x * k + k0), b.segment, from, Float.BYTES * k, block, lanes);
                    } else {
                        chains(s, (int) (x * k + k0), at, block, lanes);
                    }
                    for (int i = 0; i < dots; i++) {
                        float sum = s[sums + x * ROWS + row + i];
                        for (int chain = 0; chain < CHAINS; chain++) {
                            sum += s[lanes + i * CHAINS + chain];
                        }
                        s[sums + x * ROWS + row + i] = sum;
                    }
                }
            }
        }
        for (int x = 0; x < m; x++) {
            c.store(fromC + x * n + row0, rows, s, sums + x * ROWS);
        }
    }

    /** The sixteen chains of x with each of four rows. Narrow vectors hold a part of the chains and pass several times. */
    private static void chains(float[] s, int x, int u, int depth, int lanes) {
        int whole = depth & -CHAINS;
        for (int part = 0; part < CHAINS; part += W) {
            FloatVector c0 = FloatVector.zero(SPECIES);
            FloatVector c1 = c0;
            FloatVector c2 = c0;
            FloatVector c3 = c0;
            for (int j = part; j < whole; j += CHAINS) {
                FloatVector a = FloatVector.fromArray(SPECIES, s, x + j);
                c0 = a.fma(FloatVector.fromArray(SPECIES, s, u + j), c0);
                c1 = a.fma(FloatVector.fromArray(SPECIES, s, u + j + STRIDE), c1);
                c2 = a.fma(FloatVector.fromArray(SPECIES, s, u + j + 2 * STRIDE), c2);
                c3 = a.fma(FloatVector.fromArray(SPECIES, s, u + j + 3 * STRIDE), c3);
            }
            c0.intoArray(s, lanes + part);
            c1.intoArray(s, lanes + part + CHAINS);
            c2.intoArray(s, lanes + part + 2 * CHAINS);
            c3.intoArray(s, lanes + part + 3 * CHAINS);
        }
        for (int i = 0; i < DOTS; i++) {
            for (int j = whole; j < depth; j++) {
                int lane = lanes + i * CHAINS + j - whole;
                s[lane] = Math.fma(s[x + j], s[u + i * STRIDE + j], s[lane]);
            }
        }
    }

    /** The same with the rows where they lie, {@code step} bytes apart: a copy would halve the speed of a single row. */
    private static void chains(float[] s, int x, MemorySegment u, long from, long step, int depth, int lanes) {
        int whole = depth & -CHAINS;
        for (int part = 0; part < CHAINS; part += W) {
            FloatVector c0 = FloatVector.zero(SPECIES);
            FloatVector c1 = c0;
            FloatVector c2 = c0;
            FloatVector c3 = c0;
            for (int j = part; j < whole; j += CHAINS) {
                FloatVector a = FloatVector.fromArray(SPECIES, s, x + j);
                long at = from + (long) Float.BYTES * j;
                c0 = a.fma(FloatVector.fromMemorySegment(SPECIES, u, at, LITTLE_ENDIAN), c0);
                c1 = a.fma(FloatVector.fromMemorySegment(SPECIES, u, at + step, LITTLE_ENDIAN), c1);
                c2 = a.fma(FloatVector.fromMemorySegment(SPECIES, u, at + 2 * step, LITTLE_ENDIAN), c2);
                c3 = a.fma(FloatVector.fromMemorySegment(SPECIES, u, at + 3 * step, LITTLE_ENDIAN), c3);
            }
            c0.intoArray(s, lanes + part);
            c1.intoArray(s, lanes + part + CHAINS);
            c2.intoArray(s, lanes + part + 2 * CHAINS);
            c3.intoArray(s, lanes + part + 3 * CHAINS);
        }
        for (int i = 0; i < DOTS; i++) {
            for (int j = whole; j < depth; j++) {
                int lane = lanes + i * CHAINS + j - whole;
                float y = u.get(View.F32, from + i * step + (long) Float.BYTES * j);
                s[lane] = Math.fma(s[x + j], y, s[lane]);
            }
        }
    }
}
