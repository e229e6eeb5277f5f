package dev.starforge.tensor.device;

import java.nio.file.Path;
import java.util.Set;

/**
 * How to open a device.
 *
 * @param index which one of its kind
 * @param threads worker threads of a CPU device, 0 for one on each physical core
 * @param kernelCache where compiled kernels are kept between runs
 * @param hidden what a device must do without though it is there, so that what it does elsewhere can be tested here: of a
 *     CPU the instruction sets that it must not write machine code for, as Linux names them, {@link #NO_MACHINE_CODE} for none
 *     at all; of a GPU what its backend names
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
