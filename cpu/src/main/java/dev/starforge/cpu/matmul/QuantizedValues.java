package dev.starforge.cpu.matmul;

import static java.nio.ByteOrder.LITTLE_ENDIAN;
import static jdk.incubator.vector.VectorOperators.ASHR;
import static jdk.incubator.vector.VectorOperators.I2F;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;

import dev.starforge.cpu.core.Lanes;
import dev.starforge.cpu.core.Panels;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.codec.Nf4;
import java.lang.foreign.MemorySegment;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Unpacks the planes of a panel ({@link Panels}) for products: quantized values as 16-bit integers, 32 rows for each k in
 * sixteen slots of the float scratch; scales and shifts as floats, 32 rows for each group; and weights as floats. A weight
 * is {@code (value - centre) * scale + shift}; NF4 is a table lookup.
 *
 * <p>The loops over memory count bytes in a long, by a step that the compiler does not know, on purpose: of a loop whose step
 * it knows it makes several, with some thirty instructions of checks before each, and leaves these alone. The loop over parts
 * is for vectors narrower than sixteen lanes.
 */
public final class QuantizedValues {
    /** Slots of the scratch that hold 32 quantized values. */
    static final int SLOTS = 16;

    private static final int ROWS = Panels.ROWS;
    private static final int LANES = 64; // bytes of 32 rows in a plane
    private static long laneStep = LANES; // not final, see above
    private static final VectorSpecies<Float> FLOATS = Lanes.SPECIES;
    private static final VectorSpecies<Integer> INTS = FLOATS.withLanes(int.class);
    private static final int W = Lanes.WIDTH;
    static final float TWO_TO_112 = 0x1p112f;
    static final int F16_BITS = 0x8fffe000; // sign, exponent and fraction of an fp16 value, shifted left by 13
    private static final float[] QUANTILES = Nf4.quants16();

    private QuantizedValues() {}

    /** The quantized value of zero. */
    static int centre(DType type) {
        return switch (type) {
            case Q4_0 -> 8;
            case Q5_0 -> 16;
            case Q6_K -> 32;
            default -> 0;
        };
    }

    /** Elements of a row that share a scale. */
    static int group(DType type) {
        return switch (type) {
            case Q6_K -> 16;
            case NF4, NF4_DOUBLE -> 64;
            case INT8_128 -> 128;
            default -> 32;
        };
    }

    /** Returns true if values are integers that can be multiplied in 16-bit lanes. */
    static boolean areWhole(DType type) {
        return switch (type) {
            case Q8_0, NF4 -> false;
            default -> !type.isPlanar();
        };
    }

    /** Returns true if the type has a shift (minimum) besides the scale. */
    static boolean shifts(DType type) {
        return switch (type) {
            case Q4_1, Q5_1, Q4_K, Q5_K -> true;
            default -> false;
        };
    }

    /** Unpacks the values of {@code k} elements, whole blocks of a panel that begin at {@code from}. */
    static void unpack(Panels panels, MemorySegment w, long from, int k, float[] s, int to) {
        int each = panels.high == 0 ? panels.type.blockElements() : Panels.GROUP;
        for (int k0 = 0; k0 < k; k0 += each) {
            long high = from + panels.quantsAt(k0);
            nibbles(w, high + panels.lowAt(), each, s, to + k0 * SLOTS);
            switch (panels.high) {
                case 1 -> upper(w, high, each, s, to + k0 * SLOTS);
                case 2 -> upperTwo(w, high, each, s, to + k0 * SLOTS);
                default -> {} // four bits
            }
        }
    }

    /** Unpacks ints of eight values of rows r and 16 + r: the lower 16 bits of both in one vector, then the upper ones. */
    private static void nibbles(MemorySegment w, long from, int k, float[] s, int to) {
        for (int part = 0; part < SLOTS; part += W) {
            int q = to + part;
            long end = from + (long) k / 4 * LANES;
            for (long p = from + 4 * part; p < end; p += 2 * laneStep, q += 8 * SLOTS) {
                IntVector a = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                IntVector b = IntVector.fromMemorySegment(INTS, w, p + LANES, LITTLE_ENDIAN);
                IntVector v0 = a.and(0xffff).or(b.lanewise(LSHL, 16));
                IntVector v1 = a.lanewise(LSHR, 16).or(b.and(0xffff0000));
                v0.and(0x000f000f).reinterpretAsFloats().intoArray(s, q);
                v0.lanewise(LSHR, 4).and(0x000f000f).reinterpretAsFloats().intoArray(s, q + SLOTS);
                v0.lanewise(LSHR, 8).and(0x000f000f).reinterpretAsFloats().intoArray(s, q + 2 * SLOTS);
                v0.lanewise(LSHR, 12).and(0x000f000f).reinterpretAsFloats().intoArray(s, q + 3 * SLOTS);
                v1.and(0x000f000f).reinterpretAsFloats().intoArray(s, q + 4 * SLOTS);
                v1.lanewise(LSHR, 4).and(0x000f000f).reinterpretAsFloats().intoArray(s, q + 5 * SLOTS);
                v1.lanewise(LSHR, 8).and(0x000f000f).reinterpretAsFloats().intoArray(s, q + 6 * SLOTS);
                v1.lanewise(LSHR, 12).and(0x000f000f).reinterpretAsFloats().intoArray(s, q + 7 * SLOTS);
            }
        }
    }

    /** The two upper bits of sixteen values: four in each byte, of the first eight and then of the second. */
    private static void upperTwo(MemorySegment w, long from, int k, float[] s, int to) {
        for (int part = 0; part < SLOTS; part += W) {
            int q = to + part;
            long end = from + (long) k / 8 * LANES;
            for (long p = from + 4 * part; p < end; p += 2 * laneStep, q += 16 * SLOTS) {
                IntVector a = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                IntVector b = IntVector.fromMemorySegment(INTS, w, p + LANES, LITTLE_ENDIAN);
                IntVector v0 = a.and(0xffff).or(b.lanewise(LSHL, 16));
                IntVector v1 = a.lanewise(LSHR, 16).or(b.and(0xffff0000));
                for (int i = 0; i < 8; i++) {
                    int shift = i % 4 / 2 * 8 + i % 2 * 2 + i / 4 * 4;
                    int at = q + (i / 4 * 8 + i % 4) * SLOTS;
                    IntVector code0 = FloatVector.fromArray(FLOATS, s, at).reinterpretAsInts();
                    IntVector top0 = v0.lanewise(LSHR, shift).and(0x00030003).lanewise(LSHL, 4);
                    code0.or(top0).reinterpretAsFloats().intoArray(s, at);
                    IntVector code1 =
                            FloatVector.fromArray(FLOATS, s, at + 4 * SLOTS).reinterpretAsInts();
                    IntVector top1 = v1.lanewise(LSHR, shift).and(0x00030003).lanewise(LSHL, 4);
                    code1.or(top1).reinterpretAsFloats().intoArray(s, at + 4 * SLOTS);
                }
            }
        }
    }

    /** The bit above the nibble. */
    private static void upper(MemorySegment w, long from, int k, float[] s, int to) {
        for (int part = 0; part < SLOTS; part += W) {
            int q = to + part;
            long end = from + (long) k / Short.SIZE * LANES;
            for (long p = from + 4 * part; p < end; p += laneStep) {
                IntVector v = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                for (int shift = 0; shift < Short.SIZE; shift++, q += SLOTS) {
                    IntVector code = FloatVector.fromArray(FLOATS, s, q).reinterpretAsInts();
                    IntVector top = v.lanewise(LSHR, shift).and(0x00010001).lanewise(LSHL, 4);
                    code.or(top).reinterpretAsFloats().intoArray(s, q);
                }
            }
        }
    }

    /**
     * Scales at {@code d} and shifts at {@code m}, a group after the other, of {@code k} elements from {@code from} on. Shifts are
     * those of weights whose quants are measured from {@code centre}.
     */
    static void scales(Panels panels, MemorySegment w, long from, int k, int centre, float[] s, int d, int m) {
        int block = panels.type.blockElements();
        int groups = block / group(panels.type) * ROWS;
        for (int k0 = 0; k0 < k; k0 += block, d += groups, m += groups) {
            long at = from + panels.at(k0);
            switch (panels.type) {
                case Q4_0, Q5_0, Q8_0 -> f16(w, at, s, d);
                case Q4_1, Q5_1 -> {
                    f16(w, at, s, d);
                    f16(w, at + LANES, s, m);
                    recentre(s, d, m, centre);
                }
                case Q4_K, Q5_K -> sixBits(w, at, centre, s, d, m);
                case Q6_K -> bytes(w, at, s, d);
                case NF4 -> words(w, at, s, d);
                default -> throw new IllegalStateException("scales: " + panels.type + " has no panels");
            }
        }
    }

    /** Sixteen bits of each row are a half; weights are finite, and so is what they are made of. */
    private static void f16(MemorySegment w, long from, float[] s, int to) {
        for (int part = 0; part < SLOTS; part += W) {
            IntVector v = IntVector.fromMemorySegment(INTS, w, from + 4 * part, LITTLE_ENDIAN);
            IntVector first = v.lanewise(LSHL, 16).lanewise(ASHR, 3).and(F16_BITS);
            first.reinterpretAsFloats().mul(TWO_TO_112).intoArray(s, to + part);
            IntVector second = v.lanewise(ASHR, 3).and(F16_BITS);
            second.reinterpretAsFloats().mul(TWO_TO_112).intoArray(s, to + SLOTS + part);
        }
    }

    private static void words(MemorySegment w, long from, float[] s, int to) {
        for (int part = 0; part < SLOTS; part += W) {
            IntVector lower = IntVector.fromMemorySegment(INTS, w, from + 4 * part, LITTLE_ENDIAN);
            IntVector upper = IntVector.fromMemorySegment(INTS, w, from + LANES + 4 * part, LITTLE_ENDIAN);
            upper.lanewise(LSHL, 16).or(lower.and(0xffff)).reinterpretAsFloats().intoArray(s, to + part);
            upper.and(0xffff0000)
                    .or(lower.lanewise(LSHR, 16))
                    .reinterpretAsFloats()
                    .intoArray(s, to + SLOTS + part);
        }
    }

    /**
     * After the units of both, eight scales and shifts of six bits in twelve bytes, in the order of {@code Q45kCodec}. The
     * product with a unit, which is a half, is exact.
     */
    private static void sixBits(MemorySegment w, long from, int centre, float[] s, int d, int m) {
        int last = 7 * ROWS; // written last, the units wait here
        f16(w, from, s, d + last);
        f16(w, from + LANES, s, m + last);
        for (int part = 0; part < SLOTS; part += W) {
            long p = from + 2 * LANES + 4 * part;
            FloatVector d0 = FloatVector.fromArray(FLOATS, s, d + last + part);
            FloatVector d1 = FloatVector.fromArray(FLOATS, s, d + last + SLOTS + part);
            FloatVector m0 = FloatVector.fromArray(FLOATS, s, m + last + part).neg();
            FloatVector m1 =
                    FloatVector.fromArray(FLOATS, s, m + last + SLOTS + part).neg();
            for (int pair = 0; pair < 2; pair++, p += laneStep) {
                IntVector a = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN); // bytes 2 pair, 2 pair + 1
                IntVector b = IntVector.fromMemorySegment(INTS, w, p + 2 * LANES, LITTLE_ENDIAN); // and 4 more
                IntVector c = IntVector.fromMemorySegment(INTS, w, p + 4 * LANES, LITTLE_ENDIAN); // and 8 more
                for (int odd = 0; odd < 2; odd++) {
                    IntVector mixed = c.lanewise(LSHR, 8 * odd);
                    IntVector scaleTop = a.lanewise(LSHR, 8 * odd + 2).and(0x00300030);
                    IntVector shiftTop = b.lanewise(LSHR, 8 * odd + 2).and(0x00300030);
                    IntVector scale = a.lanewise(LSHR, 8 * odd).and(0x003f003f);
                    IntVector shift = b.lanewise(LSHR, 8 * odd).and(0x003f003f);
                    IntVector scale4 = mixed.and(0x000f000f).or(scaleTop);
                    IntVector shift4 = mixed.lanewise(LSHR, 4).and(0x000f000f).or(shiftTop);
                    int g = (2 * pair + odd) * ROWS + part;
                    int g4 = g + 4 * ROWS;
                    FloatVector e0 = ((FloatVector) scale.and(0xffff).convert(I2F, 0)).mul(d0);
                    FloatVector e1 = ((FloatVector) scale.lanewise(LSHR, 16).convert(I2F, 0)).mul(d1);
                    e0.intoArray(s, d + g);
                    e1.intoArray(s, d + g + SLOTS);
                    ((FloatVector) shift.and(0xffff).convert(I2F, 0))
                            .fma(m0, e0.mul(centre))
                            .intoArray(s, m + g);
                    ((FloatVector) shift.lanewise(LSHR, 16).convert(I2F, 0))
                            .fma(m1, e1.mul(centre))
                            .intoArray(s, m + g + SLOTS);
                    FloatVector f0 = ((FloatVector) scale4.and(0xffff).convert(I2F, 0)).mul(d0);
                    FloatVector f1 = ((FloatVector) scale4.lanewise(LSHR, 16).convert(I2F, 0)).mul(d1);
                    f0.intoArray(s, d + g4);
                    f1.intoArray(s, d + g4 + SLOTS);
                    ((FloatVector) shift4.and(0xffff).convert(I2F, 0))
                            .fma(m0, f0.mul(centre))
                            .intoArray(s, m + g4);
                    ((FloatVector) shift4.lanewise(LSHR, 16).convert(I2F, 0))
                            .fma(m1, f1.mul(centre))
                            .intoArray(s, m + g4 + SLOTS);
                }
            }
        }
    }

    /** Sixteen signed bytes, then d. */
    private static void bytes(MemorySegment w, long from, float[] s, int d) {
        int last = d + 15 * ROWS;
        f16(w, from + 8 * LANES, s, last);
        for (int part = 0; part < SLOTS; part += W) {
            FloatVector d0 = FloatVector.fromArray(FLOATS, s, last + part);
            FloatVector d1 = FloatVector.fromArray(FLOATS, s, last + SLOTS + part);
            int q = d + part;
            for (long p = from + 4 * part; p < from + 8 * LANES; p += laneStep, q += 2 * ROWS) {
                IntVector v = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                ((FloatVector) v.lanewise(LSHL, 24).lanewise(ASHR, 24).convert(I2F, 0))
                        .mul(d0)
                        .intoArray(s, q);
                ((FloatVector) v.lanewise(LSHL, 8).lanewise(ASHR, 24).convert(I2F, 0))
                        .mul(d1)
                        .intoArray(s, q + SLOTS);
                ((FloatVector) v.lanewise(LSHL, 16).lanewise(ASHR, 24).convert(I2F, 0))
                        .mul(d0)
                        .intoArray(s, q + ROWS);
                ((FloatVector) v.lanewise(ASHR, 24).convert(I2F, 0)).mul(d1).intoArray(s, q + ROWS + SLOTS);
            }
        }
    }

    private static void recentre(float[] s, int d, int m, int centre) {
        for (int i = 0; i < ROWS; i += W) {
            FloatVector shift = FloatVector.fromArray(FLOATS, s, m + i);
            shift.add(FloatVector.fromArray(FLOATS, s, d + i).mul(centre)).intoArray(s, m + i);
        }
    }

    /**
     * Where the unpacked values, scales and shifts of a panel are in the scratch.
     *
     * @param values unused by types of eight bits, whose values are read from the panel
     */
    record UnpackedPanel(int values, int scales, int shifts) {}

    /** Dequantizes {@code k} elements, 32 rows to each. */
    static void weights(Panels panels, MemorySegment w, long from, int k, float[] s, UnpackedPanel unpacked, int to) {
        int quants = unpacked.values;
        int d = unpacked.scales;
        int m = unpacked.shifts;
        int group = group(panels.type);
        for (int k0 = 0; k0 < k; k0 += group) {
            int g = k0 / group * ROWS;
            switch (panels.type) {
                case Q8_0, INT8_128 -> plain(w, from + panels.quantsAt(k0), group, s, d + g, to + k0 * ROWS);
                case NF4, NF4_DOUBLE -> lookedUp(s, quants + k0 * SLOTS, group, d + g, to + k0 * ROWS);
                default -> affine(panels.type, s, quants + k0 * SLOTS, group, d + g, m + g, to + k0 * ROWS);
            }
        }
    }

    private static void plain(MemorySegment w, long from, int k, float[] s, int d, int to) {
        for (int part = 0; part < ROWS; part += W) {
            FloatVector scale = FloatVector.fromArray(FLOATS, s, d + part);
            int q = to + part;
            long end = from + (long) k * ROWS;
            for (long p = from + 4 * part; p < end; p += 2 * laneStep, q += 4 * ROWS) {
                IntVector v = IntVector.fromMemorySegment(INTS, w, p, LITTLE_ENDIAN);
                ((FloatVector) v.lanewise(LSHL, 24).lanewise(ASHR, 24).convert(I2F, 0))
                        .mul(scale)
                        .intoArray(s, q);
                ((FloatVector) v.lanewise(LSHL, 16).lanewise(ASHR, 24).convert(I2F, 0))
                        .mul(scale)
                        .intoArray(s, q + ROWS);
                ((FloatVector) v.lanewise(LSHL, 8).lanewise(ASHR, 24).convert(I2F, 0))
                        .mul(scale)
                        .intoArray(s, q + 2 * ROWS);
                ((FloatVector) v.lanewise(ASHR, 24).convert(I2F, 0)).mul(scale).intoArray(s, q + 3 * ROWS);
            }
        }
    }

    private static void affine(DType type, float[] s, int quants, int k, int d, int m, int to) {
        int centre = centre(type);
        FloatVector zero = FloatVector.zero(FLOATS);
        for (int part = 0; part < SLOTS; part += W) {
            FloatVector d0 = FloatVector.fromArray(FLOATS, s, d + part);
            FloatVector d1 = FloatVector.fromArray(FLOATS, s, d + SLOTS + part);
            FloatVector m0 = zero;
            FloatVector m1 = zero;
            if (shifts(type)) {
                m0 = FloatVector.fromArray(FLOATS, s, m + part);
                m1 = FloatVector.fromArray(FLOATS, s, m + SLOTS + part);
            }
            for (int i = 0; i < k; i++) {
                IntVector v = FloatVector.fromArray(FLOATS, s, quants + i * SLOTS + part)
                        .reinterpretAsInts();
                FloatVector q0 = (FloatVector) v.and(0xffff).sub(centre).convert(I2F, 0);
                FloatVector q1 = (FloatVector) v.lanewise(LSHR, 16).sub(centre).convert(I2F, 0);
                q0.fma(d0, m0).intoArray(s, to + i * ROWS + part);
                q1.fma(d1, m1).intoArray(s, to + i * ROWS + SLOTS + part);
            }
        }
    }

    /** Weights whose groups are not consecutive: (value - zero) * scale, with a group index for each k. */
    static void grouped(float[] s, UnpackedPanel unpacked, int[] slots, int k, int to) {
        for (int part = 0; part < SLOTS; part += W) {
            for (int i = 0; i < k; i++) {
                IntVector v = FloatVector.fromArray(FLOATS, s, unpacked.values + i * SLOTS + part)
                        .reinterpretAsInts();
                int d = unpacked.scales + slots[i] * ROWS + part;
                int z = unpacked.shifts + slots[i] * ROWS + part;
                ((FloatVector) v.and(0xffff).convert(I2F, 0))
                        .sub(FloatVector.fromArray(FLOATS, s, z))
                        .mul(FloatVector.fromArray(FLOATS, s, d))
                        .intoArray(s, to + i * ROWS + part);
                ((FloatVector) v.lanewise(LSHR, 16).convert(I2F, 0))
                        .sub(FloatVector.fromArray(FLOATS, s, z + SLOTS))
                        .mul(FloatVector.fromArray(FLOATS, s, d + SLOTS))
                        .intoArray(s, to + i * ROWS + SLOTS + part);
            }
        }
    }

    private static void lookedUp(float[] s, int quants, int k, int d, int to) {
        if (W == SLOTS) {
            broad(s, quants, k, d, to);
            return;
        }
        for (int i = 0; i < k; i++) {
            for (int row = 0; row < SLOTS; row++) {
                int pair = Float.floatToRawIntBits(s[quants + i * SLOTS + row]);
                s[to + i * ROWS + row] = QUANTILES[pair & 15] * s[d + row];
                s[to + i * ROWS + SLOTS + row] = QUANTILES[pair >> 16] * s[d + SLOTS + row];
            }
        }
    }

    /** A vector that holds all sixteen values is the table. */
    private static void broad(float[] s, int quants, int k, int d, int to) {
        IntVector table = FloatVector.fromArray(FLOATS, QUANTILES, 0).reinterpretAsInts();
        FloatVector d0 = FloatVector.fromArray(FLOATS, s, d);
        FloatVector d1 = FloatVector.fromArray(FLOATS, s, d + SLOTS);
        for (int i = 0; i < k; i++) {
            IntVector pair =
                    FloatVector.fromArray(FLOATS, s, quants + i * SLOTS).reinterpretAsInts();
            IntVector q0 = pair.and(15).selectFrom(table);
            IntVector q1 = pair.lanewise(LSHR, 16).selectFrom(table);
            q0.reinterpretAsFloats().mul(d0).intoArray(s, to + i * ROWS);
            q1.reinterpretAsFloats().mul(d1).intoArray(s, to + i * ROWS + SLOTS);
        }
    }
}
