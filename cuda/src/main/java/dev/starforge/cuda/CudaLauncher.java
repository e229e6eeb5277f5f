package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Launch.Argument;
import dev.starforge.kernels.Launcher;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Plain;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Optional;

/**
 * Puts kernels on a stream. Arguments go into one block that is reused for every launch: the driver copies it before it
 * returns. A slot is eight bytes; a struct takes several.
 */
final class CudaLauncher implements Launcher {
    private static final int SLOTS = 64;
    private static final int PROGRAMMATIC_STREAM_SERIALIZATION = 6;
    private static final long ATTRIBUTE_BYTES = 72;
    private static final long CONFIG_BYTES = 56;

    private final Kernels kernels;
    private final long stream;
    private final CudaMemory workspace;
    private final Device device;
    private final Chip chip;
    private final Scope scratch;
    private final Scope constants;
    private final Optional<Gemm> gemm;
    private final MemorySegment values;
    private final MemorySegment pointers;
    private final MemorySegment config;
    private boolean overlap = true;

    /**
     * What launches depend on.
     *
     * @param dependentLaunch whether one kernel may begin while another ends
     * @param clusters whether groups can reach each other's shared memory
     * @param warpgroups whether four simdgroups multiply tiles in shared memory
     */
    record Chip(int multiprocessors, boolean dependentLaunch, boolean clusters, boolean warpgroups) {}

    CudaLauncher(
            Device device,
            Chip chip,
            Kernels kernels,
            long stream,
            CudaMemory workspace,
            Optional<Gemm> gemm,
            Arena arena) {
        this.device = device;
        this.chip = chip;
        this.kernels = kernels;
        this.stream = stream;
        this.workspace = workspace;
        this.gemm = gemm;
        scratch = new Scope(device);
        constants = new Scope(device);
        values = arena.allocate(JAVA_LONG, SLOTS);
        pointers = arena.allocate(ADDRESS, SLOTS);
        config = dependent(arena, stream);
    }

    /**
     * A CUlaunchConfig with one attribute, programmatic stream serialization: the kernel may begin when all groups of the one
     * before have let it, and waits for their memory itself.
     */
    private static MemorySegment dependent(Arena arena, long stream) {
        MemorySegment attribute = arena.allocate(ATTRIBUTE_BYTES, JAVA_LONG.byteAlignment());
        attribute.set(JAVA_INT, 0, PROGRAMMATIC_STREAM_SERIALIZATION);
        attribute.set(JAVA_INT, 8, 1);
        MemorySegment config = arena.allocate(CONFIG_BYTES, JAVA_LONG.byteAlignment());
        config.set(JAVA_INT, 12, Launch.GROUP);
        config.set(JAVA_INT, 16, 1);
        config.set(JAVA_INT, 20, 1);
        config.set(JAVA_LONG, 32, stream);
        config.set(ADDRESS, 40, attribute);
        config.set(JAVA_INT, 48, 1);
        return config;
    }

    /** Whether the kernels that follow may begin early; not where what they take for weights is computed in the same step. */
    void overlap(boolean may) {
        overlap = may;
    }

    @Override
    public void launch(Launch launch) {
        int slot = 0;
        for (int i = 0; i < launch.arguments().size(); i++) {
            pointers.setAtIndex(ADDRESS, i, values.asSlice(8L * slot));
            slot += put(slot, launch.arguments().get(i));
        }
        long function = kernels.function(launch.variant());
        if (chip.dependentLaunch && overlap && launch.variant().kernel().overlaps()) {
            config.set(JAVA_INT, 0, (int) launch.x());
            config.set(JAVA_INT, 4, (int) launch.y());
            config.set(JAVA_INT, 8, (int) launch.z());
            config.set(JAVA_INT, 24, launch.variant().kernel().largeShared());
            CudaDriver.check(
                    CudaDriver.cuLaunchKernelEx(config, function, pointers, MemorySegment.NULL),
                    launch.variant().toString());
            return;
        }
        CudaDriver.check(
                CudaDriver.cuLaunchKernel(
                        function,
                        (int) launch.x(),
                        (int) launch.y(),
                        (int) launch.z(),
                        Launch.GROUP,
                        1,
                        1,
                        launch.variant().kernel().largeShared(),
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

    @Override
    public Scope scratch() {
        return scratch;
    }

    @Override
    public Tensor constant(int... numbers) {
        Tensor tensor = constants.allocate(Spec.i32(numbers.length));
        device.write(tensor, numbers);
        return tensor;
    }

    @Override
    public boolean clusters() {
        return chip.clusters;
    }

    @Override
    public int multiprocessors() {
        return chip.multiprocessors;
    }

    @Override
    public boolean warpgroups() {
        return chip.warpgroups;
    }

    @Override
    public boolean product(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c) {
        return gemm.isPresent() && gemm.get().run(op, a, b, addends, c);
    }
}
