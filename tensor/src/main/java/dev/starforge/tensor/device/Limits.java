package dev.starforge.tensor.device;

/**
 * Peak throughput of a device, measured.
 *
 * @param bytesPerSecond a plain read of memory by all threads
 * @param flopsPerSecond float32 multiply-adds in registers, each counted as two
 * @param byteOpsPerSecond multiply-adds of bytes in registers, each counted as two; 0 if the device has no instruction for them
 */
public record Limits(double bytesPerSecond, double flopsPerSecond, double byteOpsPerSecond) {}
