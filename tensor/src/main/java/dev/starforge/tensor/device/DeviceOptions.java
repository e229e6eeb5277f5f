package dev.starforge.tensor.device;

import java.nio.file.Path;
import java.util.Set;

/**
 * How to open a device.
 *
 * @param index number of the device within its backend
 * @param threads worker threads of a CPU device, 0 for one on each physical core
 * @param kernelCache where compiled kernels are kept between runs
 * @param hidden features that the device must not use, to test the code for devices without them. For a CPU: the instruction
 *     sets that machine code must not use, by their Linux names, or {@link #NO_MACHINE_CODE}; for a GPU: names that its backend
 *     defines
 */
public record DeviceOptions(int index, int threads, Path kernelCache, Set<String> hidden) {
    /** Hides every instruction set. */
    public static final Set<String> NO_MACHINE_CODE = Set.of("all");

    private static final int MOST_THREADS = 1024;

    public DeviceOptions {
        hidden = Set.copyOf(hidden);
        if (index < 0 || threads < 0 || threads > MOST_THREADS) {
            throw new DeviceException("device options: index " + index + ", threads " + threads
                    + ": must not be negative, and threads not above " + MOST_THREADS);
        }
    }

    public DeviceOptions(int index, int threads, Path kernelCache) {
        this(index, threads, kernelCache, Set.of());
    }
}
