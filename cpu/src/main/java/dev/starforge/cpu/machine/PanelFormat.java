package dev.starforge.cpu.machine;

import dev.starforge.cpu.core.Panels;
import dev.starforge.tensor.DType;

/**
 * What a kernel has to know of weights in {@link Panels}.
 *
 * @param elements of a row in a block, and {@code bytes} of all 32 rows
 * @param bits of a code
 * @param codesAt where in a block its codes begin
 * @param lowAt from the codes of sixteen elements, which begin with the bits above four, to their low bits
 * @param scaled elements that share a scale
 * @param centre what codes are measured from
 * @param shifted whether a group adds something to its weights
 */
public record PanelFormat(
        DType type,
        int elements,
        int bytes,
        int bits,
        int codesAt,
        int lowAt,
        int scaled,
        int centre,
        boolean shifted) {
    /** Activations that share a scale. */
    public static final int GROUP = 32;

    static final int ROWS = Panels.ROWS;

    /** Bytes that a kernel decodes the scales of a block to: 32 floats for each, shifts after them. */
    public static final int SCALES = 2048;

    static final int SHIFTS_AT = 1024;

    /** Whether there are kernels for it: most take activations of eight bits. */
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
                Math.toIntExact(panels.codesAt(0)),
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

    /** Sums of codes that a group of activations takes, each with a scale of its own. */
    public int parts() {
        return Math.max(1, GROUP / scaled);
    }

    /** Whether activations stay floats. */
    public boolean exact() {
        return type == DType.NF4 || type == DType.NF4_DOUBLE;
    }

    /** Whether scales come decoded, out of a plane. */
    public boolean planar() {
        return type.isPlanar();
    }

    /** Whether sums of codes begin with something: codes are not measured from their centre, and signed bytes from -128. */
    boolean biased(boolean wide) {
        return !shifted && (bits < 8 || wide);
    }

    /** What the sum of a part's activations is multiplied with for that. */
    public int bias(boolean wide) {
        return biased(wide) ? bits == 8 ? -128 : -centre : 0;
    }

    /** Whether the bytes of a product are every second code of eight, first the even ones. */
    public boolean woven() {
        return bits < 8;
    }

    /** Bytes of one token's group of activations. */
    public int activationBytes() {
        return exact() ? GROUP * Float.BYTES : GROUP + Float.BYTES + Float.BYTES * parts();
    }
}
