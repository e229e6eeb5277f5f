package dev.starforge.tensor;

import java.nio.file.Path;

/**
 * How to open a device.
 *
 * @param index which one of its kind
 * @param threads worker threads of a CPU device, 0 for all cores
 * @param kernelCache where compiled kernels are kept between runs
 */
public record DeviceOptions(int index, int threads, Path kernelCache) {
    public DeviceOptions {
        if (index < 0 || threads < 0) {
            throw new DeviceException(
                    "device options: index " + index + " and threads " + threads + " must not be negative");
        }
    }
}
