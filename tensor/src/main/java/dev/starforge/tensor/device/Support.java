package dev.starforge.tensor.device;

/**
 * How a device answers for an operation with these types and shapes: with a kernel of its own, by the operation's
 * expansion, or not at all. Every device that computes runs all operations on plain types; NONE is for quantized types that it
 * has no kernels for, and for devices that have none yet.
 */
public enum Support {
    NATIVE,
    EXPANDED,
    NONE
}
