package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Plane;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.device.DeviceException;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntUnaryOperator;

/**
 * The layout of a quantized matrix in GPU memory: tiles of 16 rows, with bits in the order in which the lanes of a simdgroup load them;
 * see weight_tiles.kernel. This class computes the source of every bit of a unit, as a table that one kernel applies in both directions.
 * Matrices whose rows or columns are not multiples of the tile are not supported.
 */
final class WeightTiles {
    static final int ROWS = 16;
    static final int FRAGMENT_COLUMNS = 64;

    private static final int STEPS = 4;
    private static final int LANES = 32;
    private static final Map<DType, WeightTiles> ALL = all();

    final DType type;
    private final int lowBits;
    private final int highBits;
    private final int fragments;
    private final int scalesAt; // byte of a block where its scales begin, if they are one stretch
    private final IntUnaryOperator lowBitAt; // bit of a block where a code's lower bits begin
    private final IntUnaryOperator highBitAt;

    private WeightTiles(
            DType type,
            int lowBits,
            int fragments,
            IntUnaryOperator lowAt,
            int highBits,
            IntUnaryOperator upperAt,
            int scalesAt) {
        this.type = type;
        this.lowBits = lowBits;
        this.highBits = highBits;
        this.fragments = fragments;
        this.lowBitAt = lowAt;
        this.highBitAt = upperAt;
        this.scalesAt = scalesAt;
    }

    private static Map<DType, WeightTiles> all() {
        IntUnaryOperator none = i -> 0;
        Map<DType, WeightTiles> all = new EnumMap<>(DType.class);
        for (WeightTiles tiles : List.of(
                new WeightTiles(DType.Q4_0, 4, 1, i -> nibblesLowThenHigh(2, i), 0, none, 0),
                new WeightTiles(DType.Q4_1, 4, 1, i -> nibblesLowThenHigh(4, i), 0, none, 0),
                new WeightTiles(DType.Q5_0, 4, 1, i -> nibblesLowThenHigh(6, i), 1, i -> 16 + i, 0),
                new WeightTiles(DType.Q5_1, 4, 1, i -> nibblesLowThenHigh(8, i), 1, i -> 32 + i, 0),
                new WeightTiles(DType.Q8_0, 8, 1, i -> (2 + i) * 8, 0, none, 0),
                new WeightTiles(DType.Q4_K, 4, 4, i -> nibblesK(16, i), 0, none, 0),
                new WeightTiles(DType.Q5_K, 4, 4, i -> nibblesK(48, i), 1, i -> (16 + i % 32) * 8 + i / 32, 0),
                new WeightTiles(DType.Q6_K, 4, 4, WeightTiles::nibblesQ6K, 2, WeightTiles::highBitsQ6K, 192),
                new WeightTiles(DType.NF4, 4, 1, i -> nibblesHighFirst(4, i), 0, none, 0),
                new WeightTiles(DType.NF4_DOUBLE, 4, 1, i -> nibblesHighFirst(0, i), 0, none, 0),
                new WeightTiles(DType.INT8_128, 8, 2, i -> i * 8, 0, none, 0))) {
            all.put(tiles.type, tiles);
        }
        return all;
    }

    private static int nibblesLowThenHigh(int from, int i) {
        return (from + i % 16) * 8 + i / 16 * 4;
    }

    private static int nibblesHighFirst(int from, int i) {
        return (from + i / 2) * 8 + 4 - i % 2 * 4;
    }

    private static int nibblesK(int from, int i) {
        return (from + i / 64 * 32 + i % 32) * 8 + i / 32 % 2 * 4;
    }

    private static int nibblesQ6K(int i) {
        return (i / 128 * 64 + i % 64) * 8 + i % 128 / 64 * 4;
    }

    private static int highBitsQ6K(int i) {
        return (128 + i / 128 * 32 + i % 32) * 8 + i % 128 / 32 * 2;
    }

    /** Returns true if matrices of this type and shape can be stored as tiles. */
    static boolean supports(Spec w) {
        WeightTiles tiles = ALL.get(w.dtype());
        return tiles != null
                && w.shape().rank() >= 2
                && w.shape().dim(-2) % ROWS == 0
                && w.shape().last() % ((long) tiles.fragments * FRAGMENT_COLUMNS) == 0;
    }

    static WeightTiles of(DType type) {
        WeightTiles tiles = ALL.get(type);
        if (tiles == null) {
            throw new DeviceException(type + ": does not lie in tiles");
        }
        return tiles;
    }

    int unitColumns() {
        return fragments * FRAGMENT_COLUMNS;
    }

    /** The segments of a file that units consist of; the rest of a matrix follows the units unchanged. */
    List<Segment> segments(long rows, long columns) {
        List<Plane> planes = type.planes(rows, columns);
        Segment quants = new Segment(0, planes.getFirst().bytes() / Math.max(1, rows), unitBits(0));
        return switch (type) {
            case INT8_128 -> List.of(quants, after(planes, 1, rows));
            case NF4_DOUBLE -> List.of(quants, after(planes, 3, rows));
            default -> List.of(quants);
        };
    }

    private Segment after(List<Plane> planes, int number, long rows) {
        long begin = planes.stream().limit(number).mapToLong(Plane::bytes).sum();
        return new Segment(begin, planes.get(number).bytes() / Math.max(1, rows), unitBits(1));
    }

    /**
     * Contiguous rows in a file.
     *
     * @param begin its first byte in the matrix
     * @param rowBytes bytes of a row
     * @param unitBits bits of a row in one unit
     */
    record Segment(long begin, long rowBytes, int unitBits) {}

    private int unitBits(int segment) {
        if (segment == 1) {
            return type == DType.INT8_128 ? 16 : 8;
        }
        return type.isPlanar()
                ? unitColumns() * lowBits
                : unitColumns() / type.blockElements() * type.blockBytes() * Byte.SIZE;
    }

    int unitBytes() {
        int all = ROWS * unitBits(0) / Byte.SIZE;
        return type.isPlanar() ? all + ROWS * unitBits(1) / Byte.SIZE : all;
    }

    /** The source of each bit of a unit: segment * 2^24 + row * 2^16 + bit of the row's share of the unit. */
    int[] sources() {
        int[] sources = new int[unitBytes() * Byte.SIZE];
        for (int fragment = 0; fragment < fragments; fragment++) {
            for (int lane = 0; lane < LANES; lane++) {
                for (int step = 0; step < STEPS; step++) {
                    for (int i = 0; i < 8; i++) {
                        int row = lane / 4 + 8 * (i / 4);
                        quantSources(sources, fragment, lane, step, i / 4, i % 4, row);
                    }
                }
            }
        }
        scaleSources(sources);
        return sources;
    }

    /** The bits of one quant: a lane's row g + 8 h, column {@code slot} of its four in a step. */
    private void quantSources(int[] sources, int fragment, int lane, int step, int h, int slot, int row) {
        int column = fragment * FRAGMENT_COLUMNS + 16 * step + lane % 4 * 4 + slot;
        int register = h + slot / 2 * 2;
        int low = lowBits == 8
                ? (fragment * 256 + step / 2 * 128 + lane * 4 + step % 2 * 2 + h) * 32 + slot * 8
                : (fragment * 128 + lane * 4 + step) * 32
                        + (QuantizedWeights.isNf4(type) ? 8 * register + slot % 2 * 4 : 4 * register + slot % 2 * 16);
        put(sources, low, lowBits, row, blockBit(column) + lowBitAt.applyAsInt(column % type.blockElements()));
        int words = fragments * lowBits * 32 + fragment * highBits * 32 + lane * highBits;
        int high = highBits == 1
                ? words * 32 + 4 * step + register + slot % 2 * 16
                : (words + step / 2) * 32 + 2 * (step % 2 * 4 + register) + slot % 2 * 16;
        put(sources, high, highBits, row, blockBit(column) + highBitAt.applyAsInt(column % type.blockElements()));
    }

    private static void put(int[] sources, int to, int count, int row, int from) {
        for (int b = 0; b < count; b++) {
            sources[to + b] = row << 16 | from + b;
        }
    }

    /** The first bit of a column's block in a row's share of a unit. */
    private int blockBit(int column) {
        int block = column / type.blockElements();
        return type.isPlanar() ? block * type.blockElements() * lowBits : block * type.blockBytes() * Byte.SIZE;
    }

    private void scaleSources(int[] sources) {
        int at = fragments * (lowBits + highBits) * 128; // bytes
        for (int row = 0; row < ROWS; row++) {
            switch (type) {
                case INT8_128, NF4_DOUBLE -> {
                    int each = unitBits(1);
                    put(sources, at * 8 + row * each, each, row | 1 << 8, 0);
                }
                case Q6_K -> {
                    put(sources, (at + row * 16) * 8, 128, row, scalesAt * 8);
                    put(sources, (at + 256 + row * 2) * 8, 16, row, (scalesAt + 16) * 8);
                }
                default -> {
                    int blocks = unitColumns() / type.blockElements();
                    int each = type.blockBytes() * 8 - type.blockElements() * (lowBits + highBits);
                    for (int b = 0; b < blocks; b++) {
                        put(
                                sources,
                                at * 8 + (row * blocks + b) * each,
                                each,
                                row,
                                b * type.blockBytes() * 8 + scalesAt * 8);
                    }
                }
            }
        }
    }

    /** The inverse: the bit of the unit for each row and bit of its share. */
    int[] destinations(int segment) {
        int[] destinations = new int[ROWS * unitBits(segment)];
        int[] sources = sources();
        for (int i = 0; i < sources.length; i++) {
            if (sources[i] >> 24 == segment) {
                destinations[(sources[i] >> 16 & 255) * unitBits(segment) + (sources[i] & 65535)] = i;
            }
        }
        return destinations;
    }
}
