package dev.starforge.tensor.device;

import java.nio.file.Path;

/**
 * How to open a device.
 *
 * @param index which one of its kind
 * @param threads worker threads of a CPU device, 0 for one on each physical core
 * @param kernelCache where compiled kernels are kept between runs
 * @param roundActivations whether a product with weights of a few bits may round its activations to eight, where that is
 *     faster: for generating text, never for training
 */
public record DeviceOptions(int index, int threads, Path kernelCache, boolean roundActivations) {
    private static final int MOST_THREADS = 1024;

    /** Every product with its activations as they are. */
    public DeviceOptions(int index, int threads, Path kernelCache) {
        this(index, threads, kernelCache, false);
    }

    public DeviceOptions {
        if (index < 0 || threads < 0 || threads > MOST_THREADS) {
            throw new DeviceException("device options: index " + index + ", threads " + threads
                    + ": must not be negative, and threads not above " + MOST_THREADS);
        }
    }
}
