package dev.starforge.train;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Shape;

/** How frozen matrices are kept. Embeddings, vectors and what is trained are never quantized. */
enum Storage {
    FP32,
    BF16,
    FP16,
    INT8,
    NF4;

    private static final int NF4_BLOCK = 64;
    private static final int NF4_SUPER = 256;

    boolean quantized() {
        return this == INT8 || this == NF4;
    }

    /** The element type it has, or is computed from. */
    DType element() {
        return switch (this) {
            case FP32 -> DType.F32;
            case FP16 -> DType.F16;
            case BF16, INT8, NF4 -> DType.BF16;
        };
    }

    /** Bytes of a matrix; {@code group} elements share a scale in int8 groups. */
    long bytes(Shape shape, int group, boolean doubled) {
        long n = shape.size();
        long blocks = (n + NF4_BLOCK - 1) / NF4_BLOCK;
        return switch (this) {
            case FP32 -> 4 * n;
            case BF16, FP16 -> 2 * n;
            case INT8 -> shape.rows() * ((shape.last() + group - 1) / group) * (group + 2L);
            case NF4 -> (n + 1) / 2 + (doubled ? blocks + 4 * ((blocks + NF4_SUPER - 1) / NF4_SUPER) : 4 * blocks);
        };
    }
}
