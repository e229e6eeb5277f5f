package dev.starforge.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.kernels.Dispatch;
import dev.starforge.kernels.Sibling;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.tensor.device.Support;
import dev.starforge.tensor.device.Usage;
import dev.starforge.tensor.op.Adapters;
import dev.starforge.tensor.op.Decoding;
import dev.starforge.tensor.op.Fused;
import dev.starforge.tensor.op.Layers;
import dev.starforge.tensor.op.Op;
import dev.starforge.tensor.op.Operands.AddLayerNormInputs;
import dev.starforge.tensor.op.Plain;
import dev.starforge.tensor.op.Routing;
import dev.starforge.tensor.op.Training;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Stream;

/**
 * An NVIDIA GPU: its primary context, current on the thread that opened it, and one stream, which runs operations in order. Only
 * copies, {@link #synchronize} and releasing memory wait for the GPU, so a kernel's error is reported at the next of these.
 *
 * <p>A replayed step runs eagerly the first time, which compiles its kernels and grows its scopes. The second time it is captured
 * into a CUDA graph, and from then on it is one graph launch. Copies and reservations throw during capture.
 */
final class CudaDevice implements Device {
    private static final long STAGING = 4L << 20;
    private static final int BUS_ID_BYTES = 32;

    /** In {@link #graphs}: the step has run once and is captured next. */
    private static final long TO_CAPTURE = 0;

    private final int index;
    private final int device;
    private final Thread owner = Thread.currentThread();
    private final Arena arena = Arena.ofConfined();
    private final MemorySegment result = arena.allocate(JAVA_LONG);
    private final OptionalLong nvmlDevice; // NVML's handle
    private final MemorySegment staging;
    private final long stream;
    private final KernelModules kernels;
    private final CudaMemory workspace;
    private final boolean ampereOrNewer;
    private final Optional<CublasGemm> gemm;
    private final CudaLauncher launcher;
    private final Set<Memory> writtenByKernels = new HashSet<>();
    private final Dispatch dispatch;
    private final Set<Memory> reserved = Collections.newSetFromMap(new IdentityHashMap<>());
    private final Map<Object, Long> graphs = new HashMap<>();
    private long staged; // bytes of pinned memory that copies may still read, since the last synchronization
    private boolean replaying;
    private boolean capturing;
    private boolean closed;

    /** Opens a device of an initialized driver. If this fails, the context is released with all its resources. */
    static CudaDevice open(DeviceOptions options) {
        String operation = "open cuda:" + options.index();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment result = arena.allocate(JAVA_LONG);
            CudaDriver.check(CudaDriver.cuDeviceGet(result, options.index()), operation);
            int device = result.get(JAVA_INT, 0);
            int status = CudaDriver.cuDevicePrimaryCtxRetain(result, device);
            if (status == CudaDriver.OUT_OF_MEMORY) {
                throw noContext(operation, device, arena);
            }
            CudaDriver.check(status, operation);
            try {
                CudaDriver.check(CudaDriver.cuCtxSetCurrent(result.get(JAVA_LONG, 0)), operation);
                return new CudaDevice(device, options);
            } catch (RuntimeException | Error failure) {
                CudaDriver.cuDevicePrimaryCtxRelease_v2(device);
                throw failure;
            }
        }
    }

    /** Without a context only NVML reports free memory, and the size of a context is not documented. */
    private static MemoryException noContext(String operation, int device, Arena arena) {
        MemorySegment total = arena.allocate(JAVA_LONG);
        CudaDriver.check(CudaDriver.cuDeviceTotalMem_v2(total, device), operation);
        long used = nvmlDevice(device, arena).stream()
                .map(handle -> Nvml.usage(handle).memoryBytes())
                .findFirst()
                .orElse(Usage.UNKNOWN.memoryBytes());
        return new MemoryException(
                "%s: CUDA out of memory creating the context (about 0.5 GB): %s of %d bytes are in use; stop other processes on this GPU"
                        .formatted(operation, used < 0 ? "most" : used, total.get(JAVA_LONG, 0)));
    }

    /** The device's context is retained and current. */
    private CudaDevice(int device, DeviceOptions options) {
        this.device = device;
        index = options.index();
        CudaDriver.check(CudaDriver.cuStreamCreate(result, CudaDriver.STREAM_NON_BLOCKING), "open " + name());
        stream = result.get(JAVA_LONG, 0);
        nvmlDevice = nvmlDevice(device, arena);
        staging = pinned();
        int major = attribute(CudaDriver.ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        ampereOrNewer = major >= CudaBackend.AMPERE_MAJOR;
        boolean portable = major > CudaBackend.AMPERE_MAJOR && options.hidden().contains(CudaBackend.HIDE_SM90);
        int minor = attribute(CudaDriver.ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        kernels = portable
                ? KernelModules.portable(options.kernelCache())
                : KernelModules.of(major, minor, options.kernelCache());
        workspace = allocate(Math.max(Dispatch.WORKSPACE, CublasGemm.workspaceBytes()));
        gemm = CublasLt.LIBRARY instanceof NativeLibrary.Found
                ? Optional.of(new CublasGemm(stream, workspace, arena))
                : Optional.empty();
        boolean hopperOrNewer = major >= CudaBackend.HOPPER_MAJOR && !portable;
        CudaLauncher.Features features = new CudaLauncher.Features(
                attribute(CudaDriver.ATTRIBUTE_MULTIPROCESSOR_COUNT),
                hopperOrNewer && !options.hidden().contains(CudaBackend.HIDE_DEPENDENT_LAUNCH),
                hopperOrNewer,
                siblings(KernelModules.hasWarpgroups(major, minor) && !portable));
        launcher = new CudaLauncher(this, features, kernels, stream, workspace, gemm, arena);
        dispatch = new Dispatch(launcher);
    }

    private static OptionalLong nvmlDevice(int device, Arena arena) {
        MemorySegment busId = arena.allocate(BUS_ID_BYTES);
        return CudaDriver.cuDeviceGetPCIBusId(busId, BUS_ID_BYTES, device) == CudaDriver.SUCCESS
                ? Nvml.device(busId.getString(0))
                : OptionalLong.empty();
    }

    /** Allocates pinned host memory. */
    @SuppressWarnings("restricted") // the driver returns an address of the requested size
    private MemorySegment pinned() {
        CudaDriver.check(CudaDriver.cuMemHostAlloc(result, STAGING, 0), "open " + name());
        return result.get(ADDRESS, 0).reinterpret(STAGING);
    }

    private int attribute(int attribute) {
        CudaDriver.check(CudaDriver.cuDeviceGetAttribute(result, attribute, device), "open " + name());
        return result.get(JAVA_INT, 0);
    }

    @Override
    public String name() {
        return "cuda:" + index;
    }

    /** The kernels with matrix instructions use those of Ampere or Hopper. */
    private Set<Sibling> siblings(boolean warpgroups) {
        if (!ampereOrNewer) {
            return Set.of();
        }
        return warpgroups ? Set.of(Sibling.MMA, Sibling.WGMMA) : Set.of(Sibling.MMA);
    }

    @Override
    public Support supports(Op op, Spec... in) {
        Support answer = Dispatch.supports(op, in);
        return ampereOrNewer || Arrays.stream(in).noneMatch(each -> each.dtype().isQuantized()) ? answer : Support.NONE;
    }

    @Override
    public long workspace(Op op, Spec... in) {
        return workspace.bytes() + Dispatch.workspace(launcher.siblings(), op, in);
    }

    @Override
    public long workspaceBytes() {
        return workspace.bytes() + launcher.scratch().reservedBytes();
    }

    @Override
    public Optional<Usage> usage() {
        requireOpen("usage");
        return Optional.of(nvmlDevice.isPresent() ? Nvml.usage(nvmlDevice.getAsLong()) : Usage.UNKNOWN);
    }

    @Override
    public void run(Op op, Tensor[] in, Tensor[] out) {
        requireOpen(op.name());
        if (inputsReadEarly(op, in).noneMatch(weight -> writtenByKernels.contains(weight.memory()))) {
            dispatch.run(op, in, out);
        } else {
            runWithoutOverlap(op, in, out);
        }
        for (Tensor each : out) {
            writtenByKernels.add(each.memory());
        }
        for (int i = 0; i < in.length; i++) {
            if (op.mutates(i)) {
                writtenByKernels.add(in[i].memory());
            }
        }
    }

    /** Runs an operation unfused and without programmatic dependent launch. */
    private void runWithoutOverlap(Op op, Tensor[] in, Tensor[] out) {
        dispatch.flush();
        launcher.dependentLaunchAllowed(false);
        dispatch.run(op, in, out);
        dispatch.flush();
        launcher.dependentLaunchAllowed(true);
    }

    /** The weights of an operation, which its kernels may read before the kernels ahead of them have finished. */
    private static Stream<Tensor> inputsReadEarly(Op op, Tensor[] in) {
        return switch (op) {
            case Plain.MatMul _, Layers.AddMatMul _ -> Stream.of(in[1]);
            case Fused.LayerNorm _ -> Stream.of(in[1], in[2]);
            case Fused.RmsNorm _ -> Stream.of(in[1]);
            case Layers.AddLayerNorm _ -> {
                AddLayerNormInputs<Tensor> a = AddLayerNormInputs.of(in);
                yield Stream.of(a.w(), a.b());
            }
            case Layers.AddRmsNorm _ -> Stream.of(in[2]);
            case Layers.Linear linear -> Arrays.stream(in, 1, 1 + linear.weights());
            case Plain.Add _,
                    Plain.Mul _,
                    Plain.Affine _,
                    Plain.Map _,
                    Plain.MapGrad _,
                    Plain.Permute _,
                    Plain.Sum _,
                    Plain.Softmax _,
                    Plain.SoftmaxGrad _,
                    Plain.LogSumExp _,
                    Plain.Pick _,
                    Plain.Unpick _,
                    Plain.Gather _,
                    Plain.ScatterAdd _,
                    Plain.Slice _,
                    Plain.Concat _,
                    Plain.Columns _,
                    Plain.Pad _,
                    Plain.Fill _,
                    Plain.Cast _,
                    Plain.Mask _,
                    Plain.Argmax _,
                    Plain.Store _,
                    Plain.Norm _,
                    Plain.AdamW _,
                    Routing.Route _,
                    Routing.Group _,
                    Routing.ExpertMatMul _,
                    Routing.ExpertOuter _,
                    Decoding.StoreInt8 _,
                    Decoding.Sample _,
                    Training.Accumulate _,
                    Training.Dropout _,
                    Training.Noise _,
                    Training.AdamW8 _,
                    Fused.LayerNormGrad _,
                    Fused.RmsNormGrad _,
                    Fused.Rope _,
                    Fused.Gated _,
                    Fused.GatedGrad _,
                    Fused.CrossEntropy _,
                    Fused.CrossEntropyGrad _,
                    Fused.Attention _,
                    Fused.AttentionGrad _,
                    Adapters.Lora _,
                    Adapters.ExpertLora _ -> Stream.empty();
        };
    }

    @Override
    public Memory reserve(long bytes) {
        enter("reserve");
        refuseInCapture("reserve " + bytes + " bytes", "the step needs more memory than in its first run");
        CudaMemory memory = allocate(bytes);
        reserved.add(memory);
        return memory;
    }

    private CudaMemory allocate(long bytes) {
        int status = CudaDriver.cuMemAlloc_v2(result, Math.max(1, bytes));
        if (status == CudaDriver.OUT_OF_MEMORY) {
            throw outOfMemory(bytes);
        }
        CudaDriver.check(status, name() + ": reserve " + bytes + " bytes");
        return new CudaMemory(result.get(JAVA_LONG, 0), bytes);
    }

    /** The error for failed reservations: requested, free and used bytes, and remedies. The workspace may not exist yet. */
    private MemoryException outOfMemory(long bytes) {
        MemorySegment total = arena.allocate(JAVA_LONG);
        CudaDriver.check(CudaDriver.cuMemGetInfo_v2(result, total), name() + ": reserve " + bytes + " bytes");
        long held = reserved.stream().mapToLong(Memory::bytes).sum() + (workspace == null ? 0 : workspace.bytes());
        return new MemoryException(
                "%s: reserve %d bytes: %d of %d are free, and this process has allocated %d; choose a smaller model, weights of fewer "
                                .formatted(name(), bytes, result.get(JAVA_LONG, 0), total.get(JAVA_LONG, 0), held)
                        + "bits (--weights), less --kv-memory, a shorter context or a smaller batch, or end what else"
                        + " uses the GPU");
    }

    @Override
    public void release(Memory memory) {
        enter("release");
        refuseInCapture("release " + memory.bytes() + " bytes", "the captured graph still uses them");
        if (!reserved.remove(memory)) {
            throw new DeviceException(name() + ": release: these " + memory.bytes() + " bytes are not reserved here");
        }
        writtenByKernels.remove(memory);
        CudaDriver.check(CudaDriver.cuMemFree_v2(((CudaMemory) memory).pointer()), name() + ": release");
    }

    @Override
    public void write(Tensor to, ByteBuffer from) {
        enter("write");
        refuseInCapture("write " + to, "the host copies nothing inside a step");
        MemorySegment source = MemorySegment.ofBuffer(from);
        if (source.byteSize() > to.bytes()) {
            throw new ShapeException("write: " + source.byteSize() + " bytes to tensor " + to);
        }
        upload(CudaMemory.pointer(to), source);
        if (Dispatch.hasWeightTiles(to.spec()) && source.byteSize() == to.bytes()) {
            dispatch.pack(to);
        }
    }

    /** Parts of a quantized tensor keep the layout of their file until the last part is written. */
    @Override
    public void write(Tensor to, long from, ByteBuffer piece) {
        enter("write");
        refuseInCapture("write " + to, "the host copies nothing inside a step");
        MemorySegment source = MemorySegment.ofBuffer(piece);
        if (from < 0 || source.byteSize() > to.bytes() - from) {
            throw new ShapeException("write: " + source.byteSize() + " bytes at " + from + " of tensor " + to);
        }
        upload(CudaMemory.pointer(to) + from, source);
        if (Dispatch.hasWeightTiles(to.spec()) && from + source.byteSize() == to.bytes()) {
            dispatch.pack(to);
        }
    }

    /** Copies through pinned memory, so that the host waits for the GPU only if that is full; see {@link #staged}. */
    private void upload(long pointer, MemorySegment source) {
        for (long at = 0; at < source.byteSize(); ) {
            if (staged == STAGING) {
                synchronize();
            }
            long bytes = Math.min(STAGING - staged, source.byteSize() - at);
            MemorySegment from = staging.asSlice(staged, bytes);
            MemorySegment.copy(source, at, from, 0, bytes);
            CudaDriver.check(CudaDriver.cuMemcpyHtoDAsync_v2(pointer + at, from, bytes, stream), name() + ": write");
            staged += bytes;
            at += bytes;
        }
    }

    @Override
    public void read(Tensor from, ByteBuffer to) {
        enter("read");
        refuseInCapture("read " + from, "the host copies nothing inside a step");
        MemorySegment target = MemorySegment.ofBuffer(to);
        if (target.byteSize() < from.bytes()) {
            throw new ShapeException("read: tensor " + from + " into " + target.byteSize() + " bytes");
        }
        if (Dispatch.hasWeightTiles(from.spec())) {
            dispatch.unpack(
                    from,
                    launcher.scratch(),
                    (file, at) -> download(target.asSlice(at, file.bytes()), CudaMemory.pointer(file)));
        } else {
            download(target.asSlice(0, from.bytes()), CudaMemory.pointer(from));
        }
    }

    /** Copies through the same pinned memory; earlier copies from it are ahead on the stream. */
    private void download(MemorySegment target, long pointer) {
        for (long at = 0; at < target.byteSize(); at += STAGING) {
            long bytes = Math.min(STAGING, target.byteSize() - at);
            downloadNative(staging.asSlice(0, bytes), pointer + at);
            MemorySegment.copy(staging, 0, target, at, bytes);
        }
    }

    private void downloadNative(MemorySegment to, long pointer) {
        if (to.byteSize() > 0) {
            CudaDriver.check(CudaDriver.cuMemcpyDtoHAsync_v2(to, pointer, to.byteSize(), stream), name() + ": read");
            synchronize();
        }
    }

    @Override
    public boolean asynchronous() {
        return true;
    }

    @Override
    public void synchronize() {
        enter("synchronize");
        refuseInCapture("synchronize", "a step must not wait for the GPU");
        CudaDriver.check(CudaDriver.cuStreamSynchronize(stream), name() + ": synchronize");
        staged = 0;
    }

    @Override
    public void replay(Object key, Runnable step) {
        enter("replay");
        if (replaying) {
            throw new DeviceException("replay " + key + ": inside another replayed step");
        }
        replaying = true;
        try {
            Long graph = graphs.get(key);
            if (graph == null) {
                step.run();
                dispatch.flush();
                graphs.put(key, TO_CAPTURE);
                return;
            }
            if (graph == TO_CAPTURE) {
                graph = capture(key, step);
                graphs.put(key, graph);
            }
            CudaDriver.check(CudaDriver.cuGraphLaunch(graph, stream), "replay " + key);
        } finally {
            replaying = false;
        }
    }

    @Override
    public void forget(Object key) {
        enter("forget");
        Long graph = graphs.remove(key);
        if (graph != null && graph != TO_CAPTURE) {
            CudaDriver.check(CudaDriver.cuGraphExecDestroy(graph), "forget " + key);
        }
    }

    /** Captures the step as an executable graph without running it. */
    private long capture(Object key, Runnable step) {
        String operation = "replay " + key + ": capture";
        CudaDriver.check(CudaDriver.cuStreamBeginCapture_v2(stream, CudaDriver.CAPTURE_THREAD_LOCAL), operation);
        capturing = true;
        try {
            step.run();
            dispatch.flush();
        } catch (RuntimeException | Error failure) {
            capturing = false;
            abandonCapture();
            if (failure instanceof MemoryException full) {
                throw full;
            }
            throw new DeviceException(operation + ": " + failure.getMessage(), failure);
        }
        capturing = false;
        result.set(JAVA_LONG, 0, 0);
        CudaDriver.check(CudaDriver.cuStreamEndCapture(stream, result), operation);
        long graph = result.get(JAVA_LONG, 0);
        int status = CudaDriver.cuGraphInstantiateWithFlags(result, graph, 0);
        CudaDriver.check(CudaDriver.cuGraphDestroy(graph), operation);
        CudaDriver.check(status, operation);
        return result.get(JAVA_LONG, 0);
    }

    /** Ends the capture of the stream after a failure, ignoring its graph and status. */
    private void abandonCapture() {
        result.set(JAVA_LONG, 0, 0);
        CudaDriver.cuStreamEndCapture(stream, result);
        if (result.get(JAVA_LONG, 0) != 0) {
            CudaDriver.cuGraphDestroy(result.get(JAVA_LONG, 0));
        }
    }

    /** Begins everything but an operation: first launches operations that are held back for fusion. */
    private void enter(String operation) {
        requireOpen(operation);
        dispatch.flush();
    }

    private void requireOpen(String operation) {
        if (closed) {
            throw new DeviceException(operation + ": " + name() + " is closed");
        }
        if (Thread.currentThread() != owner) {
            throw new DeviceException(operation + ": " + name() + " belongs to thread " + owner.getName() + ", not to "
                    + Thread.currentThread().getName());
        }
    }

    private void refuseInCapture(String operation, String why) {
        if (capturing) {
            throw new DeviceException(operation + ": not while a step is captured: " + why);
        }
    }

    /**
     * Releases everything, including memory that was not released, and even after a failure, which is thrown at the end. Operations
     * that are held back for fusion do not run, because their results cannot be read. Closing twice has no effect.
     */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        requireOpen("close");
        closed = true;
        int failure = CudaDriver.cuStreamSynchronize(stream);
        for (long graph : graphs.values()) {
            failure = first(failure, graph == TO_CAPTURE ? CudaDriver.SUCCESS : CudaDriver.cuGraphExecDestroy(graph));
        }
        for (Memory memory : reserved) {
            failure = first(failure, CudaDriver.cuMemFree_v2(((CudaMemory) memory).pointer()));
        }
        failure = first(failure, CudaDriver.cuMemFreeHost(staging));
        failure = first(failure, CudaDriver.cuMemFree_v2(workspace.pointer()));
        failure = first(failure, kernels.unload());
        gemm.ifPresent(CublasGemm::close);
        failure = first(failure, CudaDriver.cuStreamDestroy_v2(stream));
        failure = first(failure, CudaDriver.cuDevicePrimaryCtxRelease_v2(device));
        arena.close();
        CudaDriver.check(failure, name() + ": close");
    }

    /** The earlier failure of two statuses. */
    static int first(int earlier, int later) {
        return earlier == CudaDriver.SUCCESS ? later : earlier;
    }
}
