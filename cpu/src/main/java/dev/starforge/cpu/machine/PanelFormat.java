package dev.starforge.cpu.machine;

import dev.starforge.cpu.core.Panels;
import dev.starforge.tensor.DType;

/**
 * The layout of weights in {@link Panels}, as needed by the kernels.
 *
 * @param elements elements of a row in a block; {@code bytes} is the size of the block for all 32 rows
 * @param bits bits per quantized value
 * @param quantsAt offset of the quantized values in a block
 * @param lowAt offset of the low four bits from the quantized values of sixteen elements, which begin with the upper
 *     bits
 * @param scaled elements per scale
 * @param centre zero point of the quantized values
 * @param shifted true if groups have an offset that is added to the weights
 */
public record PanelFormat(
        DType type,
        int elements,
        int bytes,
        int bits,
        int quantsAt,
        int lowAt,
        int scaled,
        int centre,
        boolean shifted) {
    /** Activations per scale. */
    public static final int GROUP = 32;

    static final int ROWS = Panels.ROWS;

    /** Bytes of the decoded scales of a block: 32 floats for each scale, followed by the offsets. */
    public static final int SCALES = 2048;

    static final int SHIFTS_AT = 1024;

    /** Returns true if there are kernels for a type; most need int8 activations. */
    public static boolean has(DType type, boolean int8) {
        return switch (type) {
            case Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, INT8_128 -> int8;
            case NF4, NF4_DOUBLE -> true;
            default -> false;
        };
    }

    public static PanelFormat of(DType type) {
        Panels panels = Panels.of(type);
        int elements = type.blockElements();
        return new PanelFormat(
                type,
                elements,
                Math.toIntExact(panels.at(elements)),
                panels.low + panels.high,
                Math.toIntExact(panels.quantsAt(0)),
                panels.lowAt(),
                switch (type) {
                    case Q6_K -> 16;
                    case INT8_128, NF4, NF4_DOUBLE -> elements;
                    default -> GROUP;
                },
                switch (type) {
                    case Q4_0 -> 8;
                    case Q5_0 -> 16;
                    case Q6_K -> 32;
                    default -> 0;
                },
                switch (type) {
                    case Q4_1, Q5_1, Q4_K, Q5_K -> true;
                    default -> false;
                });
    }

    int groups() {
        return elements / GROUP;
    }

    /** Returns the number of integer sums per group of activations, each with its own scale. */
    public int parts() {
        return Math.max(1, GROUP / scaled);
    }

    /** Returns true if activations are float32. */
    public boolean exact() {
        return type == DType.NF4 || type == DType.NF4_DOUBLE;
    }

    /** Returns true if scales come decoded from a plane. */
    public boolean planar() {
        return type.isPlanar();
    }

    /** Returns true if integer sums start with a correction for the zero point, or for signed bytes offset by 128. */
    boolean biased(boolean wide) {
        return !shifted && (bits < 8 || wide);
    }

    /** Returns the factor of the sum of a part's activations for this correction. */
    public int bias(boolean wide) {
        return biased(wide) ? bits == 8 ? -128 : -centre : 0;
    }

    /** Returns true if the bytes of a dot product are every second value of eight, first the even ones. */
    public boolean woven() {
        return bits < 8;
    }

    /** Returns the bytes of one token's group of activations. */
    public int activationBytes() {
        return exact() ? GROUP * Float.BYTES : GROUP + Float.BYTES + Float.BYTES * parts();
    }
}
