package dev.starforge.tensor;

/** How a device answers for an operation: with a kernel of its own, or by the operation's expansion. */
public enum Support {
    NATIVE,
    EXPANDED
}
