package dev.starforge.tensor.device;

import java.nio.file.Path;
import java.util.Set;

/**
 * How to open a device.
 *
 * @param index which one of its kind
 * @param threads worker threads of a CPU device, 0 for one on each physical core
 * @param kernelCache where compiled kernels are kept between runs
 * @param hiddenCpuFlags instruction sets that a CPU device must not write machine code for, as Linux names them; {@link
 *     #NO_MACHINE_CODE} for none at all
 */
public record DeviceOptions(int index, int threads, Path kernelCache, Set<String> hiddenCpuFlags) {
    /** Hides every instruction set. */
    public static final Set<String> NO_MACHINE_CODE = Set.of("all");

    private static final int MOST_THREADS = 1024;

    public DeviceOptions {
        hiddenCpuFlags = Set.copyOf(hiddenCpuFlags);
        if (index < 0 || threads < 0 || threads > MOST_THREADS) {
            throw new DeviceException("device options: index " + index + ", threads " + threads
                    + ": must not be negative, and threads not above " + MOST_THREADS);
        }
    }

    public DeviceOptions(int index, int threads, Path kernelCache) {
        this(index, threads, kernelCache, Set.of());
    }
}
