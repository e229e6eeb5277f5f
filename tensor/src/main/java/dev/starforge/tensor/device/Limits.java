package dev.starforge.tensor.device;

/**
 * The most a device can do, measured on it just now.
 *
 * @param bytesPerSecond a plain read of memory by all threads
 * @param flopsPerSecond float32 multiply-adds in registers, each counted as two
 */
public record Limits(double bytesPerSecond, double flopsPerSecond) {}
