package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Launch.Argument;
import dev.starforge.kernels.Launcher;
import dev.starforge.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Puts kernels on a stream. Arguments go into one block that is reused for every launch: the driver copies it before it
 * returns. A slot is eight bytes; a struct takes several.
 */
final class CudaLauncher implements Launcher {
    private static final int SLOTS = 64;

    private final Kernels kernels;
    private final long stream;
    private final CudaMemory workspace;
    private final MemorySegment values;
    private final MemorySegment pointers;

    CudaLauncher(Kernels kernels, long stream, CudaMemory workspace, Arena arena) {
        this.kernels = kernels;
        this.stream = stream;
        this.workspace = workspace;
        values = arena.allocate(JAVA_LONG, SLOTS);
        pointers = arena.allocate(ADDRESS, SLOTS);
    }

    @Override
    public void launch(Launch launch) {
        int slot = 0;
        for (int i = 0; i < launch.arguments().size(); i++) {
            pointers.setAtIndex(ADDRESS, i, values.asSlice(8L * slot));
            slot += put(slot, launch.arguments().get(i));
        }
        CudaDriver.check(
                CudaDriver.cuLaunchKernel(
                        kernels.function(launch.variant()),
                        (int) launch.x(),
                        (int) launch.y(),
                        (int) launch.z(),
                        Launch.GROUP,
                        1,
                        1,
                        0,
                        stream,
                        pointers,
                        MemorySegment.NULL),
                launch.variant().toString());
    }

    /** Writes an argument at a slot; how many it took. */
    private int put(int slot, Argument argument) {
        switch (argument) {
            case Argument.Buffer buffer -> values.setAtIndex(JAVA_LONG, slot, CudaMemory.pointer(buffer.tensor()));
            case Argument.Workspace all -> values.setAtIndex(JAVA_LONG, slot, workspace.pointer());
            case Argument.Int number -> values.set(JAVA_INT, 8L * slot, number.value());
            case Argument.Long number -> values.setAtIndex(JAVA_LONG, slot, number.value());
            case Argument.Float number -> values.set(JAVA_FLOAT, 8L * slot, number.value());
            case Argument.Struct struct -> {
                for (int i = 0; i < struct.values().size(); i++) {
                    values.setAtIndex(JAVA_LONG, slot + i, struct.values().get(i));
                }
                return struct.values().size();
            }
        }
        return 1;
    }

    @Override
    public void zero(Tensor tensor) {
        if (tensor.bytes() > 0) {
            CudaDriver.check(
                    CudaDriver.cuMemsetD8Async(CudaMemory.pointer(tensor), (byte) 0, tensor.bytes(), stream), "zero");
        }
    }

    @Override
    public void copy(Tensor from, Tensor to) {
        if (from.bytes() > 0) {
            CudaDriver.check(
                    CudaDriver.cuMemcpyDtoDAsync_v2(
                            CudaMemory.pointer(to), CudaMemory.pointer(from), from.bytes(), stream),
                    "copy");
        }
    }
}
