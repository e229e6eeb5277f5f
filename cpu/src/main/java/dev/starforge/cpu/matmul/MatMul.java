package dev.starforge.cpu.matmul;

import static java.nio.ByteOrder.LITTLE_ENDIAN;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.S2I;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Panels;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.cpu.machine.TileProduct;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.host.HostMemory;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Matrix products in packed panels, after Goto and van de Geijn 2008, with one order of summation for every path: k is
 * cut into equal blocks of at most 512; within a block, term k belongs to chain k mod 16, a sequence of fused
 * multiply-adds; the chains of all blocks are added one after the other. This order follows from K alone. Tiles of a
 * large product keep it because a tile computes whole chains; the product of a single row keeps it because sixteen
 * consecutive elements along k are sixteen chains, so that it can read a weight of shape [N, K] in place, at memory
 * bandwidth. A row therefore has the same bits alone, in a batch, and on any machine. Where both operands are bf16 and
 * the machine multiplies pairs of them, a term is such a pair, in the bits of a float, and all of this is the same with
 * half as many terms.
 *
 * <p>One operand fills the lanes (v, packed once and shared), the other is spread over them (u, fetched by each chunk).
 * With a transposed b, whose rows run along k, b is spread and a fills the lanes, and the result comes out transposed:
 * only the small operand needs to be transposed. Otherwise b fills the lanes.
 */
final class MatMul implements Product {
    /** Largest number of rows of a for the path without packing. */
    static final int GEMV_MAX_ROWS = 8;

    static final int CHAINS = 16;
    private static long chainStep = CHAINS; // not final: see QuantizedValues
    private static final int K_BLOCK = 512;
    private static final int STRIDE = K_BLOCK + 8; // rows of a tile start in different sets of the cache
    private static final int ROWS = 48;
    private static final int LANES = PanelWeight.K_BLOCK;
    private static final int DOTS = 4;
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = SPECIES.withLanes(int.class);
    private static final VectorSpecies<Short> SHORTS = View.SHORTS;
    private static final int W = Lanes.WIDTH;
    private static final int PANEL = Tile.PANEL;
    private static final Tile.Strides STRIDES = new Tile.Strides(STRIDE, 1, PANEL, CHAINS, PANEL);

    private final long m;
    private final long n;
    private final long k; // terms
    private final int each; // elements of a term
    private final int depth;
    private final boolean few;
    private final boolean transposed; // the result is computed transposed
    private final boolean uAlongK; // rows of u are contiguous
    private final boolean vAlongK;
    private final long nu;
    private final long nv;
    private final List<TileProduct> tiles; // of a whole block and of the last one; none without machine code

    /** op(a) of [m, k] times op(b) of [k, n]; {@code pairs} needs machine code, bf16 on both sides and an even k. */
    MatMul(MachineCode.Availability machine, boolean pairs, boolean ta, boolean tb, long m, long n, long k) {
        this.m = m;
        this.n = n;
        each = pairs ? 2 : 1;
        this.k = k / each;
        depth = depth(this.k);
        few = m <= GEMV_MAX_ROWS && tb && !ta && !pairs;
        transposed = tb;
        uAlongK = tb || !ta;
        vAlongK = tb && !ta;
        nu = transposed ? n : m;
        nv = transposed ? m : n;
        tiles = few || k == 0
                ? List.of()
                : machine.code().map(code -> tiles(code)).orElse(List.of());
    }

    private List<TileProduct> tiles(MachineCode code) {
        int last = (int) ((k - 1) % depth) + 1;
        boolean pairs = each == 2;
        return List.of(code.tileProduct(pairs, depth, STRIDE, PANEL), code.tileProduct(pairs, last, STRIDE, PANEL));
    }

    /** The elements of a block. */
    static int depth(long k) {
        long blocks = Math.max(1, Workers.count(k, K_BLOCK));
        return Math.max(CHAINS, Lanes.pad(Workers.count(k, blocks), CHAINS));
    }

    private int lanes() {
        return Lanes.pad(Math.min(nv, LANES), PANEL);
    }

    @Override
    public Scratch scratch() {
        return few
                ? new Scratch(m * k, DOTS * STRIDE + Workers.count(k, depth) * DOTS * CHAINS + m * ROWS)
                : new Scratch(k * lanes(), ROWS * STRIDE + (long) ROWS * lanes() + K_BLOCK);
    }

    @Override
    public void run(Workers workers, View a, long fromA, View b, long fromB, View c, long fromC) {
        if (few) {
            workers.run(1, (chunk, s, at) -> a.load(fromA, Math.toIntExact(m * k), s, 0));
            workers.run(Workers.count(n, ROWS), (chunk, s, at) -> dots(b, fromB, c, fromC, chunk * ROWS, s, at));
            return;
        }
        View u = transposed ? b : a;
        View v = transposed ? a : b;
        long fromU = transposed ? fromB : fromA;
        long fromV = transposed ? fromA : fromB;
        for (long lane = 0; lane < nv; lane += LANES) {
            long lane0 = lane;
            int panels = Lanes.pad(Math.min(LANES, nv - lane), PANEL) / PANEL;
            if (!vAlongK && Panels.has(v.dtype)) {
                workers.run(
                        Workers.count(k, Panels.ROWS),
                        (chunk, s, at) -> unpack(v, fromV, lane0, panels, chunk * Panels.ROWS, s, at));
            } else {
                workers.run(
                        Workers.count(k, depth) * panels,
                        (chunk, s, at) ->
                                pack(v, fromV, lane0, (int) (chunk % panels), panels, chunk / panels * depth, s, at));
            }
            workers.run(
                    Workers.count(nu, ROWS),
                    (chunk, s, at) ->
                            tile(new Matrix(u, fromU), new Matrix(c, fromC), chunk * ROWS, lane0, panels, s, at));
        }
    }

    /** Consecutive terms. */
    private void along(View x, long from, int terms, float[] s, int to) {
        if (each == 1) {
            x.load(from, terms, s, to);
        } else {
            x.loadPairs(from, terms, s, to);
        }
    }

    /** The same term of consecutive chains, whose elements are {@code apart} elements apart. */
    private void across(View x, long from, long apart, int count, float[] s, int to) {
        if (each == 1) {
            x.load(from, count, s, to);
        } else {
            x.loadPairs(from, from + apart, count, s, to);
        }
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
                along(v, from + ((lane + i) * k + k0) * each, block, s, at);
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
                across(v, from + (k0 + j) * each * nv + lane, nv, lanes, s, q);
                q += PANEL;
            }
        }
    }

    /**
     * The same for a weight stored in {@link Panels}, 32 of its rows at a time: they are 32 terms of k, and its columns
     * are lanes. Each weight is decoded once, with the vectors that the product along its rows decodes with, and
     * transposed on the way. Columns are whole blocks, so every panel of lanes is full.
     */
    private void unpack(View v, long from, long lane0, int panels, long row0, float[] s, int at) {
        int lanes = panels * PANEL;
        int rows = (int) Math.min(Panels.ROWS, k - row0);
        if (rows < Panels.ROWS) { // as in the file
            for (int row = 0; row < rows; row++) {
                v.load(from + (row0 + row) * nv + lane0, lanes, s, at);
                turn(s, at, 1, row0 + row, panels);
            }
            return;
        }
        PanelWeight matrix = PanelWeight.of(v, from);
        Panels weight = matrix.panels();
        long panel = row0 / Panels.ROWS;
        long block = matrix.at(panel, lane0);
        int quants = at + LANES * Panels.ROWS;
        int scales = quants + LANES * QuantizedValues.SLOTS;
        int shifts = scales + PanelWeight.slots(v.dtype, nv) * Panels.ROWS;
        matrix.scales(panel, (int) lane0, lanes, 0, s, scales, shifts);
        if (weight.low < Byte.SIZE) {
            QuantizedValues.unpack(weight, v.segment, block, lanes, s, quants);
        }
        matrix.weights(panel, (int) lane0, lanes, s, new QuantizedValues.UnpackedPanel(quants, scales, shifts), at);
        for (int row = 0; row < rows; row++) {
            turn(s, at + row, Panels.ROWS, row0 + row, panels);
        }
    }

    /** Puts term {@code row} of all lanes, which are {@code step} apart, where {@link #pack} would. */
    private void turn(float[] s, int from, int step, long row, int panels) {
        int k0 = (int) (row / depth * depth);
        int block = (int) Math.min(depth, k - k0);
        int j = (int) (row - k0);
        int chain = j % CHAINS;
        int before = chain * (block / CHAINS) + Math.min(chain, block % CHAINS) + j / CHAINS;
        int to = k0 * panels * PANEL + before * PANEL;
        for (int panel = 0; panel < panels; panel++, to += block * PANEL) {
            for (int lane = 0; lane < PANEL; lane++, from += step) {
                s[to + lane] = s[from];
            }
        }
    }

    /** The matrix that begins at an element of a view. */
    private record Matrix(View view, long from) {}

    /** All lanes of the panels for up to {@link #ROWS} rows of u: first summed as [panel][row][lane], then stored. */
    private void tile(Matrix u, Matrix c, long row0, long lane0, int panels, float[] s, int at) {
        int rows = (int) Math.min(ROWS, nu - row0);
        int sums = at + ROWS * STRIDE;
        int strip = sums + ROWS * lanes();
        Arrays.fill(s, sums, sums + panels * ROWS * PANEL, 0);
        for (long k0 = 0; k0 < k; k0 += depth) {
            int block = (int) Math.min(depth, k - k0);
            fetch(u, row0, rows, k0, block, s, at, strip);
            for (int panel = 0; panel < panels; panel++) {
                int v = (int) k0 * panels * PANEL + panel * block * PANEL;
                int to = sums + panel * ROWS * PANEL;
                if (!tiles.isEmpty()) {
                    TileProduct product = tiles.get(block == depth ? 0 : 1);
                    product.run(s, at, v, to, (rows + Tile.WIDE_ROWS - 1) / Tile.WIDE_ROWS);
                    continue;
                }
                for (int row = 0; row < rows; row += Tile.WIDE_ROWS, to += Tile.WIDE_ROWS * PANEL) {
                    Tile.wide(s, at + row * STRIDE, v, block, to, STRIDES);
                }
            }
        }
        int lanes = (int) Math.min(panels * PANEL, nv - lane0);
        if (transposed) {
            for (int lane = 0; lane < lanes; lane++) {
                int from = sums + lane / PANEL * ROWS * PANEL + lane % PANEL;
                for (int row = 0; row < rows; row++) {
                    s[strip + row] = s[from + row * PANEL];
                }
                c.view.store(c.from + (lane0 + lane) * nu + row0, rows, s, strip);
            }
            return;
        }
        for (int row = 0; row < rows; row++) {
            for (int panel = 0; panel < panels; panel++) {
                System.arraycopy(s, sums + (panel * ROWS + row) * PANEL, s, strip + panel * PANEL, PANEL);
            }
            c.view.store(c.from + (row0 + row) * nv + lane0, lanes, s, strip);
        }
    }

    /** Rows of u, a block long, at a distance of {@link #STRIDE}. */
    private void fetch(Matrix u, long row0, int rows, long k0, int block, float[] s, int at, int strip) {
        if (uAlongK) {
            for (int row = 0; row < rows; row++) {
                along(u.view, u.from + ((row0 + row) * k + k0) * each, block, s, at + row * STRIDE);
            }
            return;
        }
        for (int j = 0; j < block; j++) {
            across(u.view, u.from + (k0 + j) * each * nu + row0, nu, rows, s, strip);
            for (int row = 0; row < rows; row++) {
                s[at + row * STRIDE + j] = s[strip + row];
            }
        }
    }

    /**
     * The few rows of a, all in the shared scratch, times up to {@link #ROWS} rows of b in place. Four bands of rows
     * are four streams, each long enough for the machine to see it coming.
     */
    private void dots(View b, long fromB, View c, long fromC, long row0, float[] s, int at) {
        int rows = (int) Math.min(ROWS, n - row0);
        int blocks = (int) Workers.count(k, depth);
        int lanes = at + DOTS * STRIDE;
        int sums = lanes + blocks * DOTS * CHAINS;
        int band = (rows + DOTS - 1) / DOTS;
        for (int row = 0; row < band; row++) {
            boolean whole = rows == DOTS * band && k % CHAINS == 0;
            boolean inPlace = whole && (b.dtype == DType.F32 || b.dtype == DType.BF16);
            for (int x = 0; x < m; x++) {
                for (int block = 0; block < blocks; block++) {
                    long k0 = (long) block * depth;
                    int length = (int) Math.min(depth, k - k0);
                    int from = (int) (x * k + k0);
                    int to = lanes + block * DOTS * CHAINS;
                    long bAt = fromB + (row0 + row) * k + k0;
                    if (inPlace) {
                        chains(b, bAt, band * k, s, from, length, to);
                    } else {
                        for (int i = 0; i < DOTS && row + i * band < rows; i++) {
                            b.load(bAt + i * band * k, length, s, at + i * STRIDE);
                        }
                        chains(s, from, at, length, to);
                    }
                }
                for (int i = 0; i < DOTS && row + i * band < rows; i++) {
                    float sum = 0;
                    for (int block = 0; block < blocks; block++) {
                        for (int chain = 0; chain < CHAINS; chain++) {
                            sum += s[lanes + (block * DOTS + i) * CHAINS + chain];
                        }
                    }
                    s[sums + x * ROWS + row + i * band] = sum;
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

    /**
     * The same for rows of F32 or BF16, {@code apart} elements apart, read in place: a copy would halve the speed for a single
     * row. F16 is copied, because the compiler converts a copy with one instruction and the Vector API needs several.
     */
    private static void chains(View b, long from, long apart, float[] s, int x, int depth, int lanes) {
        MemorySegment u = b.segment;
        long at = b.dtype.bytes() * from;
        long step = b.dtype.bytes() * apart;
        for (int part = 0; part < CHAINS; part += W) {
            if (b.dtype == DType.F32) {
                singles(u, at + 4 * part, step, s, x + part, depth, lanes + part);
            } else {
                bf16(u, at + 2 * part, step, s, x + part, depth, lanes + part);
            }
        }
    }

    private static void singles(MemorySegment u, long from, long step, float[] s, int x, int depth, int lanes) {
        HostMemory.guard(u, from);
        FloatVector c0 = FloatVector.zero(SPECIES);
        FloatVector c1 = c0;
        FloatVector c2 = c0;
        FloatVector c3 = c0;
        int j = x;
        long end = from + 4L * depth;
        for (long p = from; p < end; p += 4 * chainStep, j += CHAINS) {
            FloatVector a = FloatVector.fromArray(SPECIES, s, j);
            FloatVector b0 = FloatVector.fromMemorySegment(SPECIES, u, p, LITTLE_ENDIAN);
            c0 = a.fma(b0, c0);
            FloatVector b1 = FloatVector.fromMemorySegment(SPECIES, u, p + step, LITTLE_ENDIAN);
            c1 = a.fma(b1, c1);
            FloatVector b2 = FloatVector.fromMemorySegment(SPECIES, u, p + 2 * step, LITTLE_ENDIAN);
            c2 = a.fma(b2, c2);
            FloatVector b3 = FloatVector.fromMemorySegment(SPECIES, u, p + 3 * step, LITTLE_ENDIAN);
            c3 = a.fma(b3, c3);
        }
        c0.intoArray(s, lanes);
        c1.intoArray(s, lanes + CHAINS);
        c2.intoArray(s, lanes + 2 * CHAINS);
        c3.intoArray(s, lanes + 3 * CHAINS);
    }

    private static void bf16(MemorySegment u, long from, long step, float[] s, int x, int depth, int lanes) {
        HostMemory.guard(u, from);
        FloatVector c0 = FloatVector.zero(SPECIES);
        FloatVector c1 = c0;
        FloatVector c2 = c0;
        FloatVector c3 = c0;
        int j = x;
        long end = from + 2L * depth;
        for (long p = from; p < end; p += 2 * chainStep, j += CHAINS) {
            FloatVector a = FloatVector.fromArray(SPECIES, s, j);
            ShortVector h0 = ShortVector.fromMemorySegment(SHORTS, u, p, LITTLE_ENDIAN);
            IntVector i0 = ((IntVector) h0.convertShape(S2I, INTS, 0)).lanewise(LSHL, 16);
            FloatVector b0 = i0.reinterpretAsFloats();
            c0 = a.fma(b0, c0);
            ShortVector h1 = ShortVector.fromMemorySegment(SHORTS, u, p + step, LITTLE_ENDIAN);
            IntVector i1 = ((IntVector) h1.convertShape(S2I, INTS, 0)).lanewise(LSHL, 16);
            FloatVector b1 = i1.reinterpretAsFloats();
            c1 = a.fma(b1, c1);
            ShortVector h2 = ShortVector.fromMemorySegment(SHORTS, u, p + 2 * step, LITTLE_ENDIAN);
            IntVector i2 = ((IntVector) h2.convertShape(S2I, INTS, 0)).lanewise(LSHL, 16);
            FloatVector b2 = i2.reinterpretAsFloats();
            c2 = a.fma(b2, c2);
            ShortVector h3 = ShortVector.fromMemorySegment(SHORTS, u, p + 3 * step, LITTLE_ENDIAN);
            IntVector i3 = ((IntVector) h3.convertShape(S2I, INTS, 0)).lanewise(LSHL, 16);
            FloatVector b3 = i3.reinterpretAsFloats();
            c3 = a.fma(b3, c3);
        }
        c0.intoArray(s, lanes);
        c1.intoArray(s, lanes + CHAINS);
        c2.intoArray(s, lanes + 2 * CHAINS);
        c3.intoArray(s, lanes + 3 * CHAINS);
    }
}
