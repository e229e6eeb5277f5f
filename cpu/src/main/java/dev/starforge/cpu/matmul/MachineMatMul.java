package dev.starforge.cpu.matmul;

import static java.nio.ByteOrder.LITTLE_ENDIAN;
import static jdk.incubator.vector.VectorOperators.F2I;
import static jdk.incubator.vector.VectorOperators.I2B;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Panels;
import dev.starforge.cpu.core.Scratch;
import dev.starforge.cpu.core.View;
import dev.starforge.cpu.core.Workers;
import dev.starforge.cpu.machine.MachineCode;
import dev.starforge.cpu.machine.PanelFormat;
import dev.starforge.cpu.machine.PanelProduct;
import dev.starforge.cpu.machine.PanelProduct.At;
import dev.starforge.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorShuffle;
import jdk.incubator.vector.VectorSpecies;

/**
 * The product of {@link PanelMatMul} by machine code: activations are rounded to eight bits, but for NF4's, and tiles of tokens meet one panel
 * at a time. A few tokens are one tile, which reads its panel once, from memory. Of a prompt all tiles pass a stretch of the
 * panel that stays in the first level cache, and y carries their sums from stretch to stretch.
 */
final class MachineMatMul implements Product {
    private static final int ROWS = Panels.ROWS;
    private static final int ROW_BYTES = ROWS * Float.BYTES;
    private static final int GROUP = Rounding.GROUP;

    /** Elements of a panel that tiles pass at a time. */
    private static final int K_BLOCK = 512;

    /** Elements of a token that are rounded at a time. */
    private static final int STRIP = 256;

    /** Tiles whose activations are held at once: a prompt of 512 tokens and a little more. */
    private static final int MAX_PACKED_TILES = 86;

    /** Into how many bands of panels few tokens have a thread's share cut, so that one that was held up leaves some to the others. */
    private static final int BANDS_PER_THREAD = 8;

    /** The most panels of a band. */
    private static final int MAX_BAND_PANELS = 16;

    private static final ValueLayout.OfFloat FLOAT = ValueLayout.JAVA_FLOAT_UNALIGNED.withOrder(LITTLE_ENDIAN);
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT_UNALIGNED.withOrder(LITTLE_ENDIAN);
    private static final VectorSpecies<Float> FLOATS = Lanes.SPECIES;
    private static final int W = Lanes.WIDTH;
    private static final VectorSpecies<Byte> BYTES =
            VectorSpecies.of(byte.class, VectorShape.forBitSize(Math.max(64, Byte.SIZE * W)));
    private static final VectorShuffle<Integer> WEAVE =
            VectorShuffle.fromOp(FLOATS.withLanes(int.class), i -> i & -8 | (i & 3) << 1 | i >> 2 & 1);

    private final MachineCode code;
    private final PanelFormat format;
    private final DType type;
    private final int m;
    private final long n;
    private final int k;
    private final int tile; // tokens of a tile
    private final int most; // tokens that are held at once
    private final int tokenBytes;
    private final int scales; // decoded at a time

    MachineMatMul(MachineCode code, DType type, long m, long n, long k) {
        this.code = code;
        this.format = PanelFormat.of(type);
        this.type = type;
        this.m = Math.toIntExact(m);
        this.n = n;
        this.k = Math.toIntExact(k);
        tile = Math.clamp(this.m, 1, code.panelTokens());
        most = Math.clamp(this.m, 1, MAX_PACKED_TILES * tile);
        tokenBytes = this.k / GROUP * format.activationBytes();
        scales = format.planar() ? (int) (k / format.elements()) * ROWS : PanelFormat.SCALES / Float.BYTES;
    }

    @Override
    public Scratch scratch() {
        long own = (long) Float.BYTES * scales + (long) most * ROW_BYTES;
        return new Scratch(0, Math.max(STRIP, scales), 0, Lanes.pad((long) most * tokenBytes, 64), Lanes.pad(own, 64));
    }

    @Override
    public void run(Workers workers, View x, long fromX, View w, long fromW, View y, long fromY) {
        int left = (int) (n % ROWS);
        long whole = n / ROWS;
        PanelWeight weight = PanelWeight.of(w, fromW);
        for (int first = 0; first < m; first += most) {
            int tokens = Math.min(most, m - first);
            long to = fromY + first * n;
            long from = fromX + (long) first * k;
            PackedTiles tiles = new PackedTiles(tokens);
            workers.run(tiles.count(), (index, s, own) -> take(workers.bytes(), x, from, tiles, (int) index, s, own));
            long band = tiles.count() == 1
                    ? Math.clamp(whole / (BANDS_PER_THREAD * workers.threads()), 1, MAX_BAND_PANELS)
                    : 1;
            workers.run(Workers.count(whole, band), (chunk, s, own) -> {
                for (long panel = chunk * band; panel < Math.min(whole, (chunk + 1) * band); panel++) {
                    multiply(workers, tiles, weight, panel, new Output(y, to + panel * ROWS, ROWS), s, own);
                }
            });
            if (left > 0) {
                try (Arena arena = Arena.ofShared()) {
                    PanelWeight rest =
                            weight.rest(arena.allocate(Panels.of(type).at(k), 64));
                    Output output = new Output(y, to + whole * ROWS, left);
                    workers.run(1, (chunk, s, own) -> multiply(workers, tiles, rest, 0, output, s, own));
                }
            }
        }
    }

    /** Tokens as tiles, all but the last of one size, and their kernels. */
    private final class PackedTiles {
        private final int tokens;
        private final PanelProduct[] full;
        private final PanelProduct[] last;

        PackedTiles(int tokens) {
            this.tokens = tokens;
            full = products(Math.min(tile, tokens));
            last = tokens % tile == 0 ? full : products(tokens % tile);
        }

        private PanelProduct[] products(int tokens) {
            return new PanelProduct[] {code.panelProduct(format, tokens, true), code.panelProduct(format, tokens, false)
            };
        }

        int count() {
            return (tokens + tile - 1) / tile;
        }

        int tokens(int index) {
            return Math.min(tile, tokens - index * tile);
        }

        PanelProduct product(int index, boolean first) {
            return (tokens(index) == tile ? full : last)[first ? 0 : 1];
        }
    }

    /** The activations of a tile as its kernel wants them. */
    private void take(MemorySegment to, View x, long from, PackedTiles tiles, int index, float[] s, int own) {
        int first = index * tile;
        int tokens = tiles.tokens(index);
        for (int t = 0; t < tokens; t++) {
            for (int k0 = 0; k0 < k; k0 += STRIP) {
                int count = Math.min(STRIP, k - k0);
                x.load(from + (long) (first + t) * k + k0, count, s, own);
                for (int i = 0; i < count; i += GROUP) {
                    long group =
                            (long) first * tokenBytes + (long) (k0 + i) / GROUP * tokens * format.activationBytes();
                    take(to, group, tokens, t, s, own + i);
                }
            }
        }
    }

    private void take(MemorySegment to, long group, int tokens, int t, float[] s, int at) {
        if (format.exact()) {
            for (int i = 0; i < GROUP; i++) {
                to.set(FLOAT, group + 4L * (i * tokens + t), s[at + i]);
            }
            return;
        }
        float step = Rounding.round(s, at);
        to.set(FLOAT, group + (long) tokens * GROUP + 4L * t, step);
        int parts = format.parts();
        for (int part = 0; part < parts; part++) {
            int sum = Rounding.sum(s, at + part * GROUP / parts, GROUP / parts);
            long place = group + (long) tokens * (GROUP + 4 + 4 * part) + 4L * t;
            if (format.shifted()) {
                to.set(FLOAT, place, step * sum);
            } else {
                to.set(INT, place, code.bias(format) * sum);
            }
        }
        for (int i = 0; i < GROUP; i += W) {
            IntVector quants =
                    (IntVector) FloatVector.fromArray(FLOATS, s, at + i).convert(F2I, 0);
            IntVector ordered = format.woven() ? quants.rearrange(WEAVE) : quants;
            ((ByteVector) ordered.convertShape(I2B, BYTES, 0))
                    .intoMemorySegment(to, group + (long) GROUP * t + i, LITTLE_ENDIAN);
        }
    }

    /** The columns of y that a panel computes: {@code rows}, of which the first token's begin at element {@code at}. */
    private record Output(View view, long at, int rows) {}

    /** Multiplies all tiles with one panel. */
    private void multiply(
            Workers workers, PackedTiles tiles, PanelWeight w, long panel, Output out, float[] s, int own) {
        MemorySegment x = workers.bytes();
        long scalesAt = workers.ownBytes(own);
        boolean direct = out.view.dtype == DType.F32 && out.rows == ROWS;
        MemorySegment y = direct ? out.view.segment : x;
        long yAt = direct ? Float.BYTES * out.at : scalesAt + (long) Float.BYTES * scales;
        long yStep = direct ? Float.BYTES * n : ROW_BYTES;
        int stretch = tiles.count() == 1 ? k : K_BLOCK;
        for (int k0 = 0; k0 < k; k0 += stretch) {
            int depth = Math.min(stretch, k - k0);
            if (format.planar()) {
                w.scales(panel, k0, depth, 0, s, own, own);
                MemorySegment.copy(s, own, x, FLOAT, scalesAt, depth / format.elements() * ROWS);
            }
            for (int index = 0; index < tiles.count(); index++) {
                int first = index * tile;
                long xAt =
                        (long) first * tokenBytes + (long) k0 / GROUP * tiles.tokens(index) * format.activationBytes();
                tiles.product(index, k0 == 0)
                        .run(
                                new At(w.segment(), w.at(panel, k0)),
                                new At(x, xAt),
                                new At(y, yAt + first * yStep),
                                yStep,
                                depth / format.elements(),
                                new At(x, scalesAt));
            }
        }
        if (!direct) {
            for (int t = 0; t < tiles.tokens; t++) {
                MemorySegment.copy(y, FLOAT, yAt + t * yStep, s, own, out.rows);
                out.view.store(out.at + t * n, out.rows, s, own);
            }
        }
    }
}
