package dev.starforge.metal;

import dev.starforge.kernels.Dispatch;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
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
import dev.starforge.tensor.op.Op;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * An Apple GPU and one command stream, which runs operations in order. Memory is shared with the host. Only reads, {@link #synchronize}
 * and releasing memory wait for the GPU, so the error of a launch is reported at the next of these.
 *
 * <p>A replayed step runs eagerly the first time, which compiles its kernels and grows its scopes. The second time it is recorded, and
 * from then on its launches are encoded from the recording. Copies and reservations throw while a step is recorded.
 */
final class MetalDevice implements Device {
    private static final long STAGING = 4L << 20;
    private static final long STAGING_ALIGNMENT = 16;

    private final int index;
    private final MemorySegment device;
    private final MetalChip chip;
    private final Thread owner = Thread.currentThread();
    private final Arena arena = Arena.ofConfined();
    private final CommandStream stream;
    private final KernelLibraries kernels;
    private final MetalMemory workspace;
    private final MetalMemory staging;
    private final MetalLauncher launcher;
    private final Dispatch dispatch;
    private final Set<Memory> reserved = Collections.newSetFromMap(new IdentityHashMap<>());

    /** By key; empty if the step has run once and is recorded next. */
    private final Map<Object, Optional<Recording>> recordings = new HashMap<>();

    /** Releases what the device has, in reverse order. */
    private final List<Runnable> releases = new ArrayList<>();

    private long staged; // bytes of staging memory that copies may still read, since the last synchronization
    private boolean replaying;
    private boolean recording;
    private boolean closed;

    /** Opens a device, which it owns from now on, even if this fails. Call this within an {@link AutoreleasePool}. */
    MetalDevice(MemorySegment device, MetalChip chip, DeviceOptions options) {
        this.device = device;
        this.chip = chip;
        index = options.index();
        releases.add(arena::close);
        releases.add(() -> ObjcRuntime.objc_release(device));
        try {
            stream = new CommandStream(name(), device, chip, arena);
            releases.add(stream::release);
            kernels = new KernelLibraries(device, chip);
            releases.add(kernels::close);
            workspace = allocate(Dispatch.WORKSPACE);
            releases.add(workspace::release);
            staging = allocate(STAGING);
            releases.add(staging::release);
        } catch (RuntimeException | Error failure) {
            releases.reversed().forEach(Runnable::run);
            throw failure;
        }
        launcher = new MetalLauncher(this, chip, kernels, stream, workspace);
        dispatch = new Dispatch(launcher);
    }

    @Override
    public String name() {
        return "metal:" + index;
    }

    @Override
    public Support supports(Op op, Spec... in) {
        return Dispatch.supports(op, in);
    }

    @Override
    public long workspace(Op op, Spec... in) {
        return workspace.bytes() + Dispatch.workspace(launcher.siblings(), op, in);
    }

    @Override
    public long workspaceBytes() {
        return workspace.bytes() + launcher.scratch().reservedBytes();
    }

    /** Metal reports no utilization, and memory of this process only. */
    @Override
    public Optional<Usage> usage() {
        return Optional.of(Usage.UNKNOWN);
    }

    @Override
    public void run(Op op, Tensor[] in, Tensor[] out) {
        requireOpen(op.name());
        dispatch.run(op, in, out);
    }

    @Override
    public Memory reserve(long bytes) {
        enter("reserve");
        refuseInRecording("reserve " + bytes + " bytes", "the step needs more memory than in its first run");
        try (AutoreleasePool _ = AutoreleasePool.open()) {
            return keep(allocate(bytes));
        }
    }

    @Override
    public boolean maps(DType type) {
        return type.isFloat();
    }

    /** Maps the pages of the file, which the GPU then reads without a copy. A region that is not aligned for kernels is read instead. */
    @Override
    public Memory map(DType type, FileRegion region) {
        enter("map");
        refuseInRecording("map " + region, "the step needs more memory than in its first run");
        try (AutoreleasePool _ = AutoreleasePool.open()) {
            return keep(MetalMemory.canMap(region) ? mapPages(region) : copy(region));
        }
    }

    private Memory keep(MetalMemory memory) {
        reserved.add(memory);
        stream.resident().ifPresent(set -> set.add(memory));
        return memory;
    }

    private void drop(Memory memory) {
        stream.resident().ifPresent(set -> set.remove((MetalMemory) memory));
        ((MetalMemory) memory).release();
    }

    private MetalMemory mapPages(FileRegion region) {
        long allocated = requireRoom(MetalMemory.mappedBytes(region));
        MetalMemory memory = MetalMemory.map(device, region);
        if (memory.isNil()) {
            throw outOfMemory(region.bytes(), allocated);
        }
        return memory;
    }

    private MetalMemory copy(FileRegion region) {
        MetalMemory memory = allocate(region.bytes());
        try {
            memory.read(region);
        } catch (DeviceException e) {
            memory.release();
            throw e;
        }
        return memory;
    }

    /** Beyond the working set the system would move memory of the GPU out and in again, which is slower than failing. */
    private long requireRoom(long bytes) {
        if (bytes > chip.largestBufferBytes()) {
            throw new MemoryException("%s: reserve %d bytes: a buffer of this GPU has at most %d"
                    .formatted(name(), bytes, chip.largestBufferBytes()));
        }
        long allocated = MetalDriver.currentAllocatedSize(device);
        if (bytes > chip.workingSetBytes() - allocated) {
            throw outOfMemory(bytes, allocated);
        }
        return allocated;
    }

    private MetalMemory allocate(long bytes) {
        long allocated = requireRoom(bytes);
        MetalMemory memory = MetalMemory.allocate(device, bytes);
        if (memory.isNil()) {
            throw outOfMemory(bytes, allocated);
        }
        return memory;
    }

    private MemoryException outOfMemory(long bytes, long allocated) {
        return new MemoryException(
                "%s: reserve %d bytes: this process has allocated %d of the GPU's working set of %d; choose a smaller model, weights of"
                                .formatted(name(), bytes, allocated, chip.workingSetBytes())
                        + " fewer bits (--weights), less --kv-memory, a shorter context or a smaller batch");
    }

    @Override
    public void release(Memory memory) {
        enter("release");
        refuseInRecording("release " + memory.bytes() + " bytes", "the recorded launches still use them");
        if (!reserved.remove(memory)) {
            throw new DeviceException(name() + ": release: these " + memory.bytes() + " bytes are not reserved here");
        }
        try {
            waitForStream();
        } finally {
            drop(memory);
        }
    }

    @Override
    public void write(Tensor to, ByteBuffer from) {
        MemorySegment source = MemorySegment.ofBuffer(from);
        if (source.byteSize() > to.bytes()) {
            throw new ShapeException("write: " + source.byteSize() + " bytes to tensor " + to);
        }
        upload(to, 0, source);
    }

    /** Parts of a quantized tensor keep the layout of their file until the last part is written. */
    @Override
    public void write(Tensor to, long from, ByteBuffer piece) {
        MemorySegment source = MemorySegment.ofBuffer(piece);
        if (from < 0 || source.byteSize() > to.bytes() - from) {
            throw new ShapeException("write: " + source.byteSize() + " bytes at " + from + " of tensor " + to);
        }
        upload(to, from, source);
    }

    /**
     * Copies directly if the GPU is idle. Otherwise launches that are queued may still read the old bytes: the copy is queued behind
     * them, from staging memory, and the host waits only if that is full.
     */
    private void upload(Tensor to, long from, MemorySegment source) {
        enter("write");
        refuseInRecording("write " + to, "the host copies nothing inside a step");
        long bytes = source.byteSize();
        if (!stream.isIdle() && bytes > STAGING - staged) {
            synchronize();
        }
        if (stream.isIdle()) {
            MetalMemory.segment(to).asSlice(from).copyFrom(source);
        } else {
            MemorySegment.copy(source, 0, staging.contents(), staged, bytes);
            launcher.copy(staging, staged, MetalMemory.of(to), to.offset() + from, bytes);
            staged = Math.min(STAGING, Math.ceilDiv(staged + bytes, STAGING_ALIGNMENT) * STAGING_ALIGNMENT);
        }
        if (Dispatch.hasWeightTiles(to.spec()) && from + bytes == to.bytes()) {
            dispatch.pack(to);
        }
    }

    @Override
    public void read(Tensor from, ByteBuffer to) {
        enter("read");
        refuseInRecording("read " + from, "the host copies nothing inside a step");
        MemorySegment target = MemorySegment.ofBuffer(to);
        if (target.byteSize() < from.bytes()) {
            throw new ShapeException("read: tensor " + from + " into " + target.byteSize() + " bytes");
        }
        if (Dispatch.hasWeightTiles(from.spec())) {
            dispatch.unpack(from, launcher.scratch(), (file, at) -> download(file, target.asSlice(at)));
        } else {
            download(from, target);
        }
    }

    private void download(Tensor from, MemorySegment target) {
        waitForStream();
        target.copyFrom(MetalMemory.segment(from));
    }

    @Override
    public boolean asynchronous() {
        return true;
    }

    @Override
    public void synchronize() {
        enter("synchronize");
        refuseInRecording("synchronize", "a step must not wait for the GPU");
        waitForStream();
    }

    private void waitForStream() {
        try (AutoreleasePool _ = AutoreleasePool.open()) {
            stream.synchronize();
            staged = 0;
        }
    }

    @Override
    public void replay(Object key, Runnable step) {
        enter("replay");
        if (replaying) {
            throw new DeviceException("replay " + key + ": inside another replayed step");
        }
        replaying = true;
        try {
            Optional<Recording> recorded = recordings.get(key);
            if (recorded == null) {
                step.run();
                dispatch.flush();
                recordings.put(key, Optional.empty());
                return;
            }
            if (recorded.isEmpty()) {
                recorded = Optional.of(record(key, step));
                recordings.put(key, recorded);
            }
            try (AutoreleasePool _ = AutoreleasePool.open()) {
                stream.replay(recorded.get());
            }
        } finally {
            replaying = false;
        }
    }

    /** Records the step without running it. */
    private Recording record(Object key, Runnable step) {
        Recording launches = new Recording(device);
        recording = true;
        launcher.record(launches);
        try {
            step.run();
            dispatch.flush();
        } catch (RuntimeException | Error failure) {
            launches.close();
            if (failure instanceof MemoryException full) {
                throw full;
            }
            throw new DeviceException("replay " + key + ": record: " + failure.getMessage(), failure);
        } finally {
            recording = false;
            launcher.endRecording();
        }
        return launches;
    }

    @Override
    public void forget(Object key) {
        enter("forget");
        Optional<Recording> recorded = recordings.remove(key);
        if (recorded != null && recorded.isPresent()) {
            try {
                waitForStream();
            } finally {
                recorded.get().close();
            }
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

    private void refuseInRecording(String operation, String why) {
        if (recording) {
            throw new DeviceException(operation + ": not while a step is recorded: " + why);
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
        try (AutoreleasePool _ = AutoreleasePool.open()) {
            stream.close();
        } finally {
            recordings.values().forEach(each -> each.ifPresent(Recording::close));
            reserved.forEach(this::drop);
            releases.reversed().forEach(Runnable::run);
        }
    }
}
