package dev.starforge.tensor.device;

import java.nio.file.Path;

/**
 * How to open a device.
 *
 * @param index which one of its kind
 * @param threads worker threads of a CPU device, 0 for one on each physical core
 * @param kernelCache where compiled kernels are kept between runs
 */
public record DeviceOptions(int index, int threads, Path kernelCache) {
    private static final int MOST_THREADS = 1024;

    public DeviceOptions {
        if (index < 0 || threads < 0 || threads > MOST_THREADS) {
            throw new DeviceException("device options: index " + index + ", threads " + threads
                    + ": must not be negative, and threads not above " + MOST_THREADS);
        }
    }
}
