package dev.starforge.cpu.attention;

import dev.starforge.cpu.core.Lanes;
import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/**
 * {@link HeadTile} for the four queries that a token of a model with grouped heads has, straight from a cache in float16.
 * With four rows, widening keys and values into scratch costs more than it saves.
 *
 * <p>Widening is a shift, a mask and a multiplication by 2^112. The last is left out: queries and weights are handed over
 * 2^112 times as large instead, which is as exact, so that the bits are {@link HeadTile}'s. All of that is wrong for
 * infinity and NaN: for such a tile it returns false and the caller widens it. Subnormals, below 2^-14, are slow on
 * some processors, but rare.
 */
final class F16Tile {
    private static final int CHAINS = HeadTile.CHAINS;
    private static final int KEYS = HeadTile.KEYS;
    private static final int W = Lanes.WIDTH;
    private static final VectorSpecies<Float> SPECIES = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = SPECIES.withLanes(int.class);
    private static final VectorSpecies<Short> SHORTS =
            VectorSpecies.of(short.class, VectorShape.forBitSize(W * Short.SIZE));
    private static final int SIGN_AND_MAGNITUDE = HeadTile.SIGN_AND_MAGNITUDE;
    private static final short MAGNITUDE = 0x7fff;
    private static final ByteOrder LITTLE = ByteOrder.LITTLE_ENDIAN;

    private F16Tile() {}

    /**
     * The chains of the queries with some neighbouring keys, {@code step} bytes apart: {@link HeadTile#CHAINS} floats for a key,
     * {@link HeadTile#KEYS} keys for a query.
     */
    static boolean chains(MemorySegment x, long from, int keys, int step, float[] s, int q, int width, int to) {
        ShortVector magnitude = ShortVector.broadcast(SHORTS, MAGNITUDE);
        ShortVector most = ShortVector.zero(SHORTS);
        FloatVector zero = FloatVector.zero(SPECIES);
        for (int i = 0; i < width; i += HeadTile.WIDTH) {
            for (int part = 0; part < CHAINS; part += W) {
                int p = q + i + part;
                FloatVector q00 = FloatVector.fromArray(SPECIES, s, p);
                FloatVector q01 = FloatVector.fromArray(SPECIES, s, p + CHAINS);
                FloatVector q02 = FloatVector.fromArray(SPECIES, s, p + 2 * CHAINS);
                FloatVector q03 = FloatVector.fromArray(SPECIES, s, p + 3 * CHAINS);
                FloatVector q10 = FloatVector.fromArray(SPECIES, s, p + width);
                FloatVector q11 = FloatVector.fromArray(SPECIES, s, p + width + CHAINS);
                FloatVector q12 = FloatVector.fromArray(SPECIES, s, p + width + 2 * CHAINS);
                FloatVector q13 = FloatVector.fromArray(SPECIES, s, p + width + 3 * CHAINS);
                FloatVector q20 = FloatVector.fromArray(SPECIES, s, p + 2 * width);
                FloatVector q21 = FloatVector.fromArray(SPECIES, s, p + 2 * width + CHAINS);
                FloatVector q22 = FloatVector.fromArray(SPECIES, s, p + 2 * width + 2 * CHAINS);
                FloatVector q23 = FloatVector.fromArray(SPECIES, s, p + 2 * width + 3 * CHAINS);
                FloatVector q30 = FloatVector.fromArray(SPECIES, s, p + 3 * width);
                FloatVector q31 = FloatVector.fromArray(SPECIES, s, p + 3 * width + CHAINS);
                FloatVector q32 = FloatVector.fromArray(SPECIES, s, p + 3 * width + 2 * CHAINS);
                FloatVector q33 = FloatVector.fromArray(SPECIES, s, p + 3 * width + 3 * CHAINS);
                long at = from + 2L * (i + part);
                int end = to + part + keys * CHAINS;
                for (int chain = to + part; chain < end; chain += CHAINS, at += step) {
                    FloatVector c0 = i == 0 ? zero : FloatVector.fromArray(SPECIES, s, chain);
                    FloatVector c1 = i == 0 ? zero : FloatVector.fromArray(SPECIES, s, chain + KEYS * CHAINS);
                    FloatVector c2 = i == 0 ? zero : FloatVector.fromArray(SPECIES, s, chain + 2 * KEYS * CHAINS);
                    FloatVector c3 = i == 0 ? zero : FloatVector.fromArray(SPECIES, s, chain + 3 * KEYS * CHAINS);
                    ShortVector h = ShortVector.fromMemorySegment(SHORTS, x, at, LITTLE);
                    most = most.max(h.and(magnitude));
                    IntVector bits = (IntVector) h.convertShape(VectorOperators.S2I, INTS, 0);
                    FloatVector k = bits.lanewise(VectorOperators.LSHL, 13)
                            .and(SIGN_AND_MAGNITUDE)
                            .reinterpretAsFloats();
                    c0 = q00.fma(k, c0);
                    c1 = q10.fma(k, c1);
                    c2 = q20.fma(k, c2);
                    c3 = q30.fma(k, c3);
                    h = ShortVector.fromMemorySegment(SHORTS, x, at + 2 * CHAINS, LITTLE);
                    most = most.max(h.and(magnitude));
                    bits = (IntVector) h.convertShape(VectorOperators.S2I, INTS, 0);
                    k = bits.lanewise(VectorOperators.LSHL, 13)
                            .and(SIGN_AND_MAGNITUDE)
                            .reinterpretAsFloats();
                    c0 = q01.fma(k, c0);
                    c1 = q11.fma(k, c1);
                    c2 = q21.fma(k, c2);
                    c3 = q31.fma(k, c3);
                    h = ShortVector.fromMemorySegment(SHORTS, x, at + 4 * CHAINS, LITTLE);
                    most = most.max(h.and(magnitude));
                    bits = (IntVector) h.convertShape(VectorOperators.S2I, INTS, 0);
                    k = bits.lanewise(VectorOperators.LSHL, 13)
                            .and(SIGN_AND_MAGNITUDE)
                            .reinterpretAsFloats();
                    c0 = q02.fma(k, c0);
                    c1 = q12.fma(k, c1);
                    c2 = q22.fma(k, c2);
                    c3 = q32.fma(k, c3);
                    h = ShortVector.fromMemorySegment(SHORTS, x, at + 6 * CHAINS, LITTLE);
                    most = most.max(h.and(magnitude));
                    bits = (IntVector) h.convertShape(VectorOperators.S2I, INTS, 0);
                    k = bits.lanewise(VectorOperators.LSHL, 13)
                            .and(SIGN_AND_MAGNITUDE)
                            .reinterpretAsFloats();
                    c0 = q03.fma(k, c0);
                    c1 = q13.fma(k, c1);
                    c2 = q23.fma(k, c2);
                    c3 = q33.fma(k, c3);
                    c0.intoArray(s, chain);
                    c1.intoArray(s, chain + KEYS * CHAINS);
                    c2.intoArray(s, chain + 2 * KEYS * CHAINS);
                    c3.intoArray(s, chain + 3 * KEYS * CHAINS);
                }
            }
        }
        return most.reduceLanes(VectorOperators.MAX) < HeadTile.INFINITY_F16;
    }

    /** Adds to the sums of the rows, {@code width} apart, some neighbouring values times their weights. */
    static boolean sums(MemorySegment x, long from, int keys, int step, float[] s, int w, int width, int y) {
        ShortVector magnitude = ShortVector.broadcast(SHORTS, MAGNITUDE);
        ShortVector most = ShortVector.zero(SHORTS);
        for (int i = 0; i < width; i += 2 * W) {
            FloatVector a0 = FloatVector.fromArray(SPECIES, s, y + i);
            FloatVector b0 = FloatVector.fromArray(SPECIES, s, y + i + W);
            FloatVector a1 = FloatVector.fromArray(SPECIES, s, y + width + i);
            FloatVector b1 = FloatVector.fromArray(SPECIES, s, y + width + i + W);
            FloatVector a2 = FloatVector.fromArray(SPECIES, s, y + 2 * width + i);
            FloatVector b2 = FloatVector.fromArray(SPECIES, s, y + 2 * width + i + W);
            FloatVector a3 = FloatVector.fromArray(SPECIES, s, y + 3 * width + i);
            FloatVector b3 = FloatVector.fromArray(SPECIES, s, y + 3 * width + i + W);
            for (int key = 0; key < keys; key++) {
                long at = from + (long) key * step + 2L * i;
                ShortVector h = ShortVector.fromMemorySegment(SHORTS, x, at, LITTLE);
                most = most.max(h.and(magnitude));
                IntVector bits = (IntVector) h.convertShape(VectorOperators.S2I, INTS, 0);
                FloatVector a = bits.lanewise(VectorOperators.LSHL, 13)
                        .and(SIGN_AND_MAGNITUDE)
                        .reinterpretAsFloats();
                h = ShortVector.fromMemorySegment(SHORTS, x, at + 2 * W, LITTLE);
                most = most.max(h.and(magnitude));
                bits = (IntVector) h.convertShape(VectorOperators.S2I, INTS, 0);
                FloatVector b = bits.lanewise(VectorOperators.LSHL, 13)
                        .and(SIGN_AND_MAGNITUDE)
                        .reinterpretAsFloats();
                FloatVector f = FloatVector.broadcast(SPECIES, s[w + key]);
                a0 = f.fma(a, a0);
                b0 = f.fma(b, b0);
                f = FloatVector.broadcast(SPECIES, s[w + KEYS + key]);
                a1 = f.fma(a, a1);
                b1 = f.fma(b, b1);
                f = FloatVector.broadcast(SPECIES, s[w + 2 * KEYS + key]);
                a2 = f.fma(a, a2);
                b2 = f.fma(b, b2);
                f = FloatVector.broadcast(SPECIES, s[w + 3 * KEYS + key]);
                a3 = f.fma(a, a3);
                b3 = f.fma(b, b3);
            }
            a0.intoArray(s, y + i);
            b0.intoArray(s, y + i + W);
            a1.intoArray(s, y + width + i);
            b1.intoArray(s, y + width + i + W);
            a2.intoArray(s, y + 2 * width + i);
            b2.intoArray(s, y + 2 * width + i + W);
            a3.intoArray(s, y + 3 * width + i);
            b3.intoArray(s, y + 3 * width + i + W);
        }
        return most.reduceLanes(VectorOperators.MAX) < HeadTile.INFINITY_F16;
    }
}
