package dev.starforge.kernels;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** Launches of what brings quantized matrices into tiles and out of them; see {@link Tiles}. */
final class Weights {
    /** As repack.kernel has it. */
    static final int MAX_PLANES = 2;

    private static final int SIMDGROUPS = 8;

    private final Launcher launcher;
    private final Map<DType, Tables> tables = new EnumMap<>(DType.class);

    /** A format's table and, for each stretch of its matrices, the way back, on the device. */
    private record Tables(Tensor sources, List<Tensor> places) {}

    Weights(Launcher launcher) {
        this.launcher = launcher;
    }

    /** What was written as a file has it becomes tiles, where it is. */
    void pack(Tensor w) {
        Shape shape = Shape.of(w.dim(-2), w.dim(-1));
        Scope scratch = launcher.scratch();
        Tensor sources = tables(w.dtype()).sources;
        for (long at = 0; at < Call.size(w); at += shape.size()) {
            Tensor matrix = w.view(at, shape);
            scratch.mark();
            Tensor file = scratch.allocate(new Spec(DType.U8, Shape.of(matrix.bytes())));
            launcher.copy(matrix, file);
            new Call(launcher, Kernel.PACK_TILES)
                    .tensors(file, sources, matrix)
                    .i64(matrix.bytes())
                    .i64(unitsBytes(matrix))
                    .struct(planes(matrix))
                    .elements(matrix.bytes());
            scratch.release();
        }
    }

    /** The bytes of one matrix of tiles as a file has them, in {@code file}. */
    void unpack(Tensor matrix, Tensor file) {
        Tiles tiles = Tiles.of(matrix.dtype());
        List<Tiles.Stretch> stretches = tiles.stretches(matrix.dim(0), matrix.dim(1));
        Tables tables = tables(matrix.dtype());
        for (int i = 0; i < stretches.size(); i++) {
            unpack(
                    matrix,
                    tables.places.get(i),
                    file,
                    i,
                    matrix.dim(0) * stretches.get(i).rowBytes());
        }
        unpack(matrix, tables.places.getFirst(), file, -1, matrix.bytes() - unitsBytes(matrix));
    }

    private void unpack(Tensor matrix, Tensor places, Tensor file, int stretch, long bytes) {
        new Call(launcher, Kernel.UNPACK_TILES)
                .tensors(matrix, places, file)
                .i64(bytes)
                .i32(stretch)
                .i64(unitsBytes(matrix))
                .struct(planes(matrix))
                .elements(bytes);
    }

    /** All weights of a quantized tensor as numbers of the type of {@code y}. */
    void dequantize(Tensor w, Tensor y) {
        Shape shape = Shape.of(w.dim(-2), w.dim(-1));
        for (long at = 0; at < Call.size(w); at += shape.size()) {
            Tensor matrix = w.view(at, shape);
            decoding(Kernel.DEQUANTIZE, matrix)
                    .tensors(matrix, y.view(at, shape))
                    .unaligned("UNALIGNED_Y", y)
                    .i32(shape.dim(0))
                    .i32(shape.dim(1))
                    .groups(Call.groups(shape.size() / (Tiles.ROWS * Tiles.PIECE), SIMDGROUPS));
        }
    }

    void gather(Tensor w, Tensor ids, Tensor y) {
        decoding(Kernel.GATHER_TILES, w)
                .tensors(w, ids, y)
                .i32(w.dim(0))
                .i32(w.dim(1))
                .groups(Call.size(ids));
    }

    /** A kernel that decodes to the bit: codes of NF4 are float32, which is three numbers of bf16. */
    private Call decoding(Kernel kernel, Tensor w) {
        return new Call(launcher, kernel)
                .define("CODE_PARTS", isNf4(w.dtype()) ? 3 : 1)
                .define("FORMAT", w.dtype().name())
                .unaligned("UNALIGNED_W", w);
    }

    static boolean isNf4(DType type) {
        return type == DType.NF4 || type == DType.NF4_DOUBLE;
    }

    private Tables tables(DType type) {
        Tables found = tables.get(type);
        if (found == null) {
            Tiles tiles = Tiles.of(type);
            List<Tensor> places = new ArrayList<>();
            int stretches = tiles.stretches(Tiles.ROWS, tiles.unitColumns()).size();
            for (int i = 0; i < stretches; i++) {
                places.add(launcher.constant(tiles.places(i)));
            }
            found = new Tables(launcher.constant(tiles.sources()), List.copyOf(places));
            tables.put(type, found);
        }
        return found;
    }

    private static long unitsBytes(Tensor matrix) {
        Tiles tiles = Tiles.of(matrix.dtype());
        return matrix.dim(0) / Tiles.ROWS * (matrix.dim(1) / tiles.unitColumns()) * tiles.unitBytes();
    }

    /** As repack.kernel has it. */
    private static List<Long> planes(Tensor matrix) {
        Tiles tiles = Tiles.of(matrix.dtype());
        List<Tiles.Stretch> stretches = tiles.stretches(matrix.dim(0), matrix.dim(1));
        Long[] planes = new Long[3 + 3 * MAX_PLANES];
        planes[0] = matrix.dim(1) / tiles.unitColumns();
        planes[1] = (long) tiles.unitBytes();
        planes[2] = matrix.dim(0) * stretches.getFirst().rowBytes();
        for (int i = 0; i < MAX_PLANES; i++) {
            Tiles.Stretch stretch = stretches.get(Math.min(i, stretches.size() - 1));
            planes[3 + i] = stretch.begin();
            planes[3 + MAX_PLANES + i] = stretch.rowBytes();
            planes[3 + 2 * MAX_PLANES + i] = (long) stretch.unitBits();
        }
        return List.of(planes);
    }
}
