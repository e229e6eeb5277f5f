package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.kernels.Launch;
import dev.starforge.kernels.Launch.Argument;
import dev.starforge.kernels.Launcher;
import dev.starforge.kernels.Sibling;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.op.Plain;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Launches kernels on a stream. Arguments are written to one block of eight-byte slots that all launches reuse, because the driver
 * copies it before it returns. A struct takes several slots.
 */
final class CudaLauncher implements Launcher {
    private static final int SLOTS = 64;
    private static final long SLOT_BYTES = JAVA_LONG.byteSize();

    /** Bytes of shared memory per block: what every device since Ampere offers, as in cuda.prelude, and what Hopper does. */
    private static final int SHARED_LIMIT = 99 << 10;

    private static final int HOPPER_SHARED_LIMIT = 227 << 10;

    /** CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION. */
    private static final int PROGRAMMATIC_STREAM_SERIALIZATION = 6;

    /** CUlaunchAttribute; the value is a union of 64 bytes; this attribute uses its first int. */
    private static final StructLayout ATTRIBUTE = MemoryLayout.structLayout(
            JAVA_INT.withName("id"),
            MemoryLayout.paddingLayout(4),
            JAVA_INT.withName("programmaticStreamSerializationAllowed"),
            MemoryLayout.paddingLayout(60));

    /** CUlaunchConfig. */
    private static final StructLayout CONFIG = MemoryLayout.structLayout(
            JAVA_INT.withName("gridDimX"),
            JAVA_INT.withName("gridDimY"),
            JAVA_INT.withName("gridDimZ"),
            JAVA_INT.withName("blockDimX"),
            JAVA_INT.withName("blockDimY"),
            JAVA_INT.withName("blockDimZ"),
            JAVA_INT.withName("sharedMemBytes"),
            MemoryLayout.paddingLayout(4),
            JAVA_LONG.withName("hStream"),
            ADDRESS.withName("attrs"),
            JAVA_INT.withName("numAttrs"),
            MemoryLayout.paddingLayout(4));

    private static final long GRID_DIM_X = offset(CONFIG, "gridDimX");
    private static final long GRID_DIM_Y = offset(CONFIG, "gridDimY");
    private static final long GRID_DIM_Z = offset(CONFIG, "gridDimZ");
    private static final long BLOCK_DIM_X = offset(CONFIG, "blockDimX");
    private static final long SHARED_MEM_BYTES = offset(CONFIG, "sharedMemBytes");

    private final KernelModules kernels;
    private final long stream;
    private final CudaMemory workspace;
    private final Device device;
    private final Features chip;
    private final Scope scratch;
    private final Scope constants;
    private final Optional<CublasGemm> gemm;
    private final MemorySegment values;
    private final MemorySegment pointers;
    private final MemorySegment config;
    private boolean dependentLaunchAllowed = true;

    /**
     * Device features that launches depend on.
     *
     * @param dependentLaunch programmatic dependent launch
     * @param clusters thread block clusters with distributed shared memory
     * @param siblings the siblings of the portable kernels that the device runs
     */
    record Features(int multiprocessors, boolean dependentLaunch, boolean clusters, Set<Sibling> siblings) {}

    CudaLauncher(
            Device device,
            Features chip,
            KernelModules kernels,
            long stream,
            CudaMemory workspace,
            Optional<CublasGemm> gemm,
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
     * A CUlaunchConfig with programmatic stream serialization: the kernel may start when all groups of the preceding one have
     * triggered it, and waits for their memory itself.
     */
    private static MemorySegment dependent(Arena arena, long stream) {
        MemorySegment attribute = arena.allocate(ATTRIBUTE.byteSize(), JAVA_LONG.byteAlignment());
        attribute.set(JAVA_INT, offset(ATTRIBUTE, "id"), PROGRAMMATIC_STREAM_SERIALIZATION);
        attribute.set(JAVA_INT, offset(ATTRIBUTE, "programmaticStreamSerializationAllowed"), 1);
        MemorySegment config = arena.allocate(CONFIG);
        config.set(JAVA_INT, offset(CONFIG, "blockDimY"), 1);
        config.set(JAVA_INT, offset(CONFIG, "blockDimZ"), 1);
        config.set(JAVA_LONG, offset(CONFIG, "hStream"), stream);
        config.set(ADDRESS, offset(CONFIG, "attrs"), attribute);
        config.set(JAVA_INT, offset(CONFIG, "numAttrs"), 1);
        return config;
    }

    private static long offset(StructLayout struct, String member) {
        return struct.byteOffset(PathElement.groupElement(member));
    }

    /** Allows or forbids dependent launch; it must be off while the operands that kernels read as weights are computed in the same step. */
    void dependentLaunchAllowed(boolean may) {
        dependentLaunchAllowed = may;
    }

    @Override
    public void launch(Launch launch) {
        int slot = 0;
        for (int i = 0; i < launch.arguments().size(); i++) {
            pointers.setAtIndex(ADDRESS, i, values.asSlice(SLOT_BYTES * slot));
            slot += put(slot, launch.arguments().get(i));
        }
        long function = kernels.function(launch.variant());
        if (chip.dependentLaunch
                && dependentLaunchAllowed
                && launch.variant().kernel().usesDependentLaunch()) {
            config.set(JAVA_INT, GRID_DIM_X, (int) launch.x());
            config.set(JAVA_INT, GRID_DIM_Y, (int) launch.y());
            config.set(JAVA_INT, GRID_DIM_Z, (int) launch.z());
            config.set(JAVA_INT, BLOCK_DIM_X, launch.threads());
            config.set(JAVA_INT, SHARED_MEM_BYTES, launch.variant().kernel().dynamicSharedBytes());
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
                        launch.threads(),
                        1,
                        1,
                        launch.variant().kernel().dynamicSharedBytes(),
                        stream,
                        pointers,
                        MemorySegment.NULL),
                launch.variant().toString());
    }

    /** Writes an argument and returns the number of slots it takes. */
    private int put(int slot, Argument argument) {
        switch (argument) {
            case Argument.Buffer buffer -> values.setAtIndex(JAVA_LONG, slot, CudaMemory.pointer(buffer.tensor()));
            case Argument.Absent none -> values.setAtIndex(JAVA_LONG, slot, workspace.pointer());
            case Argument.Workspace all -> values.setAtIndex(JAVA_LONG, slot, workspace.pointer());
            case Argument.Int number -> values.set(JAVA_INT, SLOT_BYTES * slot, number.value());
            case Argument.Long number -> values.setAtIndex(JAVA_LONG, slot, number.value());
            case Argument.Float number -> values.set(JAVA_FLOAT, SLOT_BYTES * slot, number.value());
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
    public boolean supportsClusters() {
        return chip.clusters;
    }

    @Override
    public int multiprocessors() {
        return chip.multiprocessors;
    }

    @Override
    public Set<Sibling> siblings() {
        return chip.siblings();
    }

    @Override
    public int sharedLimit() {
        return chip.siblings().contains(Sibling.WGMMA) ? HOPPER_SHARED_LIMIT : SHARED_LIMIT;
    }

    @Override
    public boolean matmul(Plain.MatMul op, Tensor a, Tensor b, List<Tensor> addends, Tensor c) {
        return gemm.isPresent() && gemm.get().run(op, a, b, addends, c);
    }
}
