package dev.starforge.tensor;

/** A stretch of a device's memory. Only the device that reserved it knows what is behind it. */
public interface Memory {
    long bytes();
}
