package dev.starforge.tensor.device;

/**
 * How a device supports an operation on given types and shapes: with its own kernel, by the operation's expansion, or not at
 * all. Every device supports all operations on plain types; NONE is for quantized types without a kernel.
 */
public enum Support {
    NATIVE,
    EXPANDED,
    NONE
}
