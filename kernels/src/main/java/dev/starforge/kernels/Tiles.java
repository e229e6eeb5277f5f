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
 * How a quantized matrix lies in a GPU's memory: sixteen rows make a tile, and bits have the order in which lanes of a
 * simdgroup want them; tiles.kernel says why. Here is where every bit of a unit comes from, as a table that a kernel
 * follows in both directions. A matrix whose rows or columns do not divide is not laid out so, and not supported.
 */
final class Tiles {
    static final int ROWS = 16;
    static final int PIECE = 64;

    private static final int STEPS = 4;
    private static final int LANES = 32;
    private static final Map<DType, Tiles> ALL = all();

    final DType type;
    private final int bits;
    private final int upper;
    private final int pieces;
    private final int scalesAt; // byte of a block where its scales begin, if they are one stretch
    private final IntUnaryOperator lowAt; // bit of a block where a code's lower bits begin
    private final IntUnaryOperator upperAt;

    private Tiles(
            DType type,
            int bits,
            int pieces,
            IntUnaryOperator lowAt,
            int upper,
            IntUnaryOperator upperAt,
            int scalesAt) {
        this.type = type;
        this.bits = bits;
        this.upper = upper;
        this.pieces = pieces;
        this.lowAt = lowAt;
        this.upperAt = upperAt;
        this.scalesAt = scalesAt;
    }

    private static Map<DType, Tiles> all() {
        IntUnaryOperator none = i -> 0;
        Map<DType, Tiles> all = new EnumMap<>(DType.class);
        for (Tiles tiles : List.of(
                new Tiles(DType.Q4_0, 4, 1, i -> halves(2, i), 0, none, 0),
                new Tiles(DType.Q4_1, 4, 1, i -> halves(4, i), 0, none, 0),
                new Tiles(DType.Q5_0, 4, 1, i -> halves(6, i), 1, i -> 16 + i, 0),
                new Tiles(DType.Q5_1, 4, 1, i -> halves(8, i), 1, i -> 32 + i, 0),
                new Tiles(DType.Q8_0, 8, 1, i -> (2 + i) * 8, 0, none, 0),
                new Tiles(DType.Q4_K, 4, 4, i -> runs(16, i), 0, none, 0),
                new Tiles(DType.Q5_K, 4, 4, i -> runs(48, i), 1, i -> (16 + i % 32) * 8 + i / 32, 0),
                new Tiles(DType.Q6_K, 4, 4, Tiles::quarters, 2, Tiles::twoBits, 192),
                new Tiles(DType.NF4, 4, 1, i -> highFirst(4, i), 0, none, 0),
                new Tiles(DType.NF4_DOUBLE, 4, 1, i -> highFirst(0, i), 0, none, 0),
                new Tiles(DType.INT8_128, 8, 2, i -> i * 8, 0, none, 0))) {
            all.put(tiles.type, tiles);
        }
        return all;
    }

    private static int halves(int from, int i) {
        return (from + i % 16) * 8 + i / 16 * 4;
    }

    private static int highFirst(int from, int i) {
        return (from + i / 2) * 8 + 4 - i % 2 * 4;
    }

    private static int runs(int from, int i) {
        return (from + i / 64 * 32 + i % 32) * 8 + i / 32 % 2 * 4;
    }

    private static int quarters(int i) {
        return (i / 128 * 64 + i % 64) * 8 + i % 128 / 64 * 4;
    }

    private static int twoBits(int i) {
        return (128 + i / 128 * 32 + i % 32) * 8 + i % 128 / 32 * 2;
    }

    /** Whether matrices of this type and shape lie in tiles. */
    static boolean has(Spec w) {
        Tiles tiles = ALL.get(w.dtype());
        return tiles != null
                && w.shape().rank() >= 2
                && w.shape().dim(-2) % ROWS == 0
                && w.shape().last() % ((long) tiles.pieces * PIECE) == 0;
    }

    static Tiles of(DType type) {
        Tiles tiles = ALL.get(type);
        if (tiles == null) {
            throw new DeviceException(type + ": does not lie in tiles");
        }
        return tiles;
    }

    int unitColumns() {
        return pieces * PIECE;
    }

    /** The stretches of memory that units are made of; whatever else a matrix has follows the units as it is. */
    List<Stretch> stretches(long rows, long columns) {
        List<Plane> planes = type.planes(rows, columns);
        Stretch codes = new Stretch(0, planes.getFirst().bytes() / Math.max(1, rows), unitBits(0));
        return switch (type) {
            case INT8_128 -> List.of(codes, after(planes, 1, rows));
            case NF4_DOUBLE -> List.of(codes, after(planes, 3, rows));
            default -> List.of(codes);
        };
    }

    private Stretch after(List<Plane> planes, int number, long rows) {
        long begin = planes.stream().limit(number).mapToLong(Plane::bytes).sum();
        return new Stretch(begin, planes.get(number).bytes() / Math.max(1, rows), unitBits(1));
    }

    /**
     * Rows side by side in a file.
     *
     * @param begin its first byte in the matrix
     * @param rowBytes of each row
     * @param unitBits of a row, that belong to one unit
     */
    record Stretch(long begin, long rowBytes, int unitBits) {}

    private int unitBits(int stretch) {
        if (stretch == 1) {
            return type == DType.INT8_128 ? 16 : 8;
        }
        return type.isPlanar()
                ? unitColumns() * bits
                : unitColumns() / type.blockElements() * type.blockBytes() * Byte.SIZE;
    }

    int unitBytes() {
        int all = ROWS * unitBits(0) / Byte.SIZE;
        return type.isPlanar() ? all + ROWS * unitBits(1) / Byte.SIZE : all;
    }

    /** For each bit of a unit where it comes from: stretch * 2^24 + row * 2^16 + bit of the row's part of the unit. */
    int[] sources() {
        int[] sources = new int[unitBytes() * Byte.SIZE];
        for (int piece = 0; piece < pieces; piece++) {
            for (int lane = 0; lane < LANES; lane++) {
                for (int step = 0; step < STEPS; step++) {
                    for (int i = 0; i < 8; i++) {
                        int row = lane / 4 + 8 * (i / 4);
                        code(sources, piece, lane, step, i / 4, i % 4, row);
                    }
                }
            }
        }
        scales(sources);
        return sources;
    }

    /** The bits of one code: of a lane's row g + 8 h, column {@code slot} of its four in a step. */
    private void code(int[] sources, int piece, int lane, int step, int h, int slot, int row) {
        int column = piece * PIECE + 16 * step + lane % 4 * 4 + slot;
        int register = h + slot / 2 * 2;
        int low = bits == 8
                ? (piece * 256 + step / 2 * 128 + lane * 4 + step % 2 * 2 + h) * 32 + slot * 8
                : (piece * 128 + lane * 4 + step) * 32
                        + (Weights.isNf4(type) ? 8 * register + slot % 2 * 4 : 4 * register + slot % 2 * 16);
        put(sources, low, bits, row, blockBit(column) + lowAt.applyAsInt(column % type.blockElements()));
        int words = pieces * bits * 32 + piece * upper * 32 + lane * upper;
        int high = upper == 1
                ? words * 32 + 4 * step + register + slot % 2 * 16
                : (words + step / 2) * 32 + 2 * (step % 2 * 4 + register) + slot % 2 * 16;
        put(sources, high, upper, row, blockBit(column) + upperAt.applyAsInt(column % type.blockElements()));
    }

    private static void put(int[] sources, int to, int count, int row, int from) {
        for (int b = 0; b < count; b++) {
            sources[to + b] = row << 16 | from + b;
        }
    }

    /** Where in a row's part of a unit the block of a column begins. */
    private int blockBit(int column) {
        int block = column / type.blockElements();
        return type.isPlanar() ? block * type.blockElements() * bits : block * type.blockBytes() * Byte.SIZE;
    }

    private void scales(int[] sources) {
        int at = pieces * (bits + upper) * 128; // bytes
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
                    int each = type.blockBytes() * 8 - type.blockElements() * (bits + upper);
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

    /** The other way: for each row and bit of its part of a unit where that bit is in the unit. */
    int[] places(int stretch) {
        int[] places = new int[ROWS * unitBits(stretch)];
        int[] sources = sources();
        for (int i = 0; i < sources.length; i++) {
            if (sources[i] >> 24 == stretch) {
                places[(sources[i] >> 16 & 255) * unitBits(stretch) + (sources[i] & 65535)] = i;
            }
        }
        return places;
    }
}
