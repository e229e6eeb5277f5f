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

/** Launches that repack, dequantize and gather quantized weights; see {@link WeightTiles}. */
final class QuantizedWeights {
    /** As in repack_weights.kernel. */
    static final int MAX_PLANES = 2;

    private static final int SIMDGROUPS = 8;

    private final Launcher launcher;
    private final Map<DType, Tables> tables = new EnumMap<>(DType.class);

    /** A format's repacking table and, for each segment of its matrices, the inverse, on the device. */
    private record Tables(Tensor sources, List<Tensor> destinations) {}

    QuantizedWeights(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Repacks a tensor in place from the layout of its file to tiles. */
    void pack(Tensor w) {
        Shape shape = Shape.of(w.dim(-2), w.dim(-1));
        Scope scratch = launcher.scratch();
        Tensor sources = tables(w.dtype()).sources;
        for (long at = 0; at < KernelCall.size(w); at += shape.size()) {
            Tensor matrix = w.view(at, shape);
            scratch.mark();
            Tensor file = scratch.allocate(new Spec(DType.U8, Shape.of(matrix.bytes())));
            launcher.copy(matrix, file);
            new KernelCall(launcher, Kernel.PACK_WEIGHT_TILES)
                    .tensors(file, sources, matrix)
                    .i64(matrix.bytes())
                    .i64(unitsBytes(matrix))
                    .struct(planes(matrix))
                    .elements(matrix.bytes());
            scratch.release();
        }
    }

    /** Repacks one matrix of tiles to the layout of its file, in {@code file}. */
    void unpack(Tensor matrix, Tensor file) {
        WeightTiles tiles = WeightTiles.of(matrix.dtype());
        List<WeightTiles.Segment> segments = tiles.segments(matrix.dim(0), matrix.dim(1));
        Tables tables = tables(matrix.dtype());
        for (int i = 0; i < segments.size(); i++) {
            unpack(
                    matrix,
                    tables.destinations.get(i),
                    file,
                    i,
                    matrix.dim(0) * segments.get(i).rowBytes());
        }
        unpack(matrix, tables.destinations.getFirst(), file, -1, matrix.bytes() - unitsBytes(matrix));
    }

    private void unpack(Tensor matrix, Tensor destinations, Tensor file, int segment, long bytes) {
        new KernelCall(launcher, Kernel.UNPACK_WEIGHT_TILES)
                .tensors(matrix, destinations, file)
                .i64(bytes)
                .i32(segment)
                .i64(unitsBytes(matrix))
                .struct(planes(matrix))
                .elements(bytes);
    }

    /** Dequantizes a tensor to the type of {@code y}. */
    void dequantize(Tensor w, Tensor y) {
        Shape shape = Shape.of(w.dim(-2), w.dim(-1));
        for (long at = 0; at < KernelCall.size(w); at += shape.size()) {
            Tensor matrix = w.view(at, shape);
            decodingCall(Kernel.DEQUANTIZE, matrix)
                    .tensors(matrix, y.view(at, shape))
                    .unaligned("UNALIGNED_Y", y)
                    .i32(shape.dim(0))
                    .i32(shape.dim(1))
                    .groups(KernelCall.groups(
                            shape.size() / (WeightTiles.ROWS * WeightTiles.FRAGMENT_COLUMNS), SIMDGROUPS));
        }
    }

    void gather(Tensor w, Tensor ids, Tensor y) {
        decodingCall(Kernel.GATHER_ROWS, w)
                .tensors(w, ids, y)
                .i32(w.dim(0))
                .i32(w.dim(1))
                .groups(KernelCall.size(ids));
    }

    /** A call of a kernel that dequantizes exactly: NF4 values are float32, three terms of bf16. */
    private KernelCall decodingCall(Kernel kernel, Tensor w) {
        return new KernelCall(launcher, kernel)
                .define("W_SPLIT", isNf4(w.dtype()) ? 3 : 1)
                .define("FORMAT", w.dtype().name())
                .unaligned("UNALIGNED_W", w);
    }

    static boolean isNf4(DType type) {
        return type == DType.NF4 || type == DType.NF4_DOUBLE;
    }

    private Tables tables(DType type) {
        Tables found = tables.get(type);
        if (found == null) {
            WeightTiles tiles = WeightTiles.of(type);
            List<Tensor> destinations = new ArrayList<>();
            int segments = tiles.segments(WeightTiles.ROWS, tiles.unitColumns()).size();
            for (int i = 0; i < segments; i++) {
                destinations.add(launcher.constant(tiles.destinations(i)));
            }
            found = new Tables(launcher.constant(tiles.sources()), List.copyOf(destinations));
            tables.put(type, found);
        }
        return found;
    }

    private static long unitsBytes(Tensor matrix) {
        WeightTiles tiles = WeightTiles.of(matrix.dtype());
        return matrix.dim(0) / WeightTiles.ROWS * (matrix.dim(1) / tiles.unitColumns()) * tiles.unitBytes();
    }

    /** As in repack_weights.kernel. */
    private static List<Long> planes(Tensor matrix) {
        WeightTiles tiles = WeightTiles.of(matrix.dtype());
        List<WeightTiles.Segment> segments = tiles.segments(matrix.dim(0), matrix.dim(1));
        Long[] planes = new Long[3 + 3 * MAX_PLANES];
        planes[0] = matrix.dim(1) / tiles.unitColumns();
        planes[1] = (long) tiles.unitBytes();
        planes[2] = matrix.dim(0) * segments.getFirst().rowBytes();
        for (int i = 0; i < MAX_PLANES; i++) {
            WeightTiles.Segment segment = segments.get(Math.min(i, segments.size() - 1));
            planes[3 + i] = segment.begin();
            planes[3 + MAX_PLANES + i] = segment.rowBytes();
            planes[3 + 2 * MAX_PLANES + i] = (long) segment.unitBits();
        }
        return List.of(planes);
    }
}
