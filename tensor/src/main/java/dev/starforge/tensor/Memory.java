package dev.starforge.tensor;

/** A block of device memory, opaque to all but the device that reserved it. */
public interface Memory {
    long bytes();
}
