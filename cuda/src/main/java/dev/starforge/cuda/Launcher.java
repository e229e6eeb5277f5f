package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Puts kernels on a stream. Arguments are set one after the other, in the order of the kernel's parameters, into one
 * block that is reused for every launch: the driver copies it before it returns. A slot is eight bytes, so the table of
 * pointers to arguments never changes; a struct takes several slots and must be the last parameter.
 */
final class Launcher {
    /** Threads in a group, for every kernel. */
    static final int GROUP = 256;

    private static final int SLOTS = 32;
    private static final long MAX_GROUPS_X = Integer.MAX_VALUE;
    private static final long MAX_GROUPS_YZ = 65535;

    private final Kernels kernels;
    private final long stream;
    private final MemorySegment values;
    private final MemorySegment pointers;
    private Kernel kernel = Kernel.FILL;
    private int slot;

    Launcher(Kernels kernels, long stream, Arena arena) {
        this.kernels = kernels;
        this.stream = stream;
        values = arena.allocate(JAVA_LONG, SLOTS);
        pointers = arena.allocate(ADDRESS, SLOTS);
        for (int i = 0; i < SLOTS; i++) {
            pointers.setAtIndex(ADDRESS, i, values.asSlice(8L * i));
        }
    }

    /** Begins a launch. */
    Launcher kernel(Kernel next) {
        kernel = next;
        slot = 0;
        return this;
    }

    Launcher tensors(Tensor... tensors) {
        for (Tensor tensor : tensors) {
            i64(CudaMemory.pointer(tensor));
        }
        return this;
    }

    /** A 64-bit integer or a pointer. */
    Launcher i64(long value) {
        values.setAtIndex(JAVA_LONG, slot++, value);
        return this;
    }

    /** A 32-bit integer; a dimension that does not fit is refused. */
    Launcher i32(long value) {
        if (value != (int) value) {
            throw new DeviceException(kernel.symbol() + ": " + value + " does not fit into 32 bits");
        }
        values.set(JAVA_INT, 8L * slot++, (int) value);
        return this;
    }

    Launcher f32(double value) {
        values.set(JAVA_FLOAT, 8L * slot++, (float) value);
        return this;
    }

    /** One thread for each of {@code elements}. */
    void elements(long elements) {
        groups((elements + GROUP - 1) / GROUP, 1, 1);
    }

    /** So many groups; none at all when one of the counts is 0, which is how empty outputs are computed. */
    void groups(long x, long y, long z) {
        if (x == 0 || y == 0 || z == 0) {
            return;
        }
        if (x > MAX_GROUPS_X || y > MAX_GROUPS_YZ || z > MAX_GROUPS_YZ) {
            throw new DeviceException(
                    kernel.symbol() + ": " + x + " x " + y + " x " + z + " groups are more than a launch takes");
        }
        long function = kernels.function(kernel);
        CudaDriver.check(
                CudaDriver.cuLaunchKernel(
                        function, (int) x, (int) y, (int) z, GROUP, 1, 1, 0, stream, pointers, MemorySegment.NULL),
                kernel.symbol());
    }

    void zero(Tensor tensor) {
        if (tensor.bytes() > 0) {
            CudaDriver.check(
                    CudaDriver.cuMemsetD8Async(CudaMemory.pointer(tensor), (byte) 0, tensor.bytes(), stream), "zero");
        }
    }

    void copy(long from, long to, long bytes) {
        if (bytes > 0) {
            CudaDriver.check(CudaDriver.cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "copy");
        }
    }
}
