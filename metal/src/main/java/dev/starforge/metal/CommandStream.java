package dev.starforge.metal;

import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A command queue whose launches run as if in order. They are encoded into a command buffer with one concurrent encoder, which is
 * committed after {@link #LAUNCHES_PER_COMMIT} launches, at the end of a replay, and before the host waits.
 *
 * <p>Metal tracks nothing here. Barriers separate launches that depend on each other within an encoder, and a fence separates encoders.
 * Command buffers do not retain what they use: buffers may be released only after {@link #synchronize}.
 */
final class CommandStream implements LaunchSink {
    /** MLX commits after 40 launches on small chips and 50 on large ones; a boundary takes about 20 us of GPU time. */
    private static final int LAUNCHES_PER_COMMIT = 50;

    /** A replay is committed after this many launches, so that the GPU starts while the rest is encoded. */
    private static final int LAUNCHES_TO_START = 64;

    private final String name;
    private final MemorySegment device;
    private final MemorySegment queue;
    private final MemorySegment fence;
    private final Optional<ResidencySet> resident;
    private final MemorySegment scratch;
    private final HazardTracker hazards = new HazardTracker();
    private final Deque<Commands> submitted = new ArrayDeque<>();
    private final List<ScalarBuffer> spare = new ArrayList<>();
    private @Nullable Commands open;
    private int launches; // in the open command buffer
    private boolean fenced; // an encoder has updated the fence

    /** A command buffer, its encoder until it is committed, and the scalars of its launches. */
    private record Commands(MemorySegment buffer, MemorySegment encoder, ScalarBuffer scalars) {}

    /** Call this within an {@link AutoreleasePool}, like all methods that take launches. */
    CommandStream(String name, MemorySegment device, MetalChip chip, Arena arena) {
        this.name = name;
        this.device = device;
        queue = ObjcRuntime.required(MetalDriver.newCommandQueue(device), "newCommandQueue");
        fence = ObjcRuntime.required(MetalDriver.newFence(device), "newFence");
        resident = ResidencySet.of(device, chip, queue);
        scratch = arena.allocate(EncodedLaunch.NATIVE_BYTES, Long.BYTES);
    }

    /** The buffers that the GPU keeps, where the system can be asked for it. */
    Optional<ResidencySet> resident() {
        return resident;
    }

    @Override
    public SegmentAllocator allocator() {
        return SegmentAllocator.slicingAllocator(scratch);
    }

    @Override
    public ScalarBuffer scalars(long bytes) {
        if (open != null && !open.scalars.hasRoom(bytes)) {
            commit();
        }
        return commands().scalars;
    }

    @Override
    public void add(EncodedLaunch launch) {
        MemorySegment encoder = commands().encoder;
        if (hazards.needsBarrier(launch.bytes())) {
            MetalCommands.memoryBarrierWithScope(encoder, MetalCommands.BARRIER_BUFFERS);
        }
        launch.encode(encoder);
        launches++;
        if (launches >= LAUNCHES_PER_COMMIT) {
            commit();
        }
    }

    /** Encodes and commits all launches of a recording, after those added so far. */
    void replay(Recording recording) {
        List<EncodedLaunch> list = recording.launches();
        for (int i = 0; i < list.size(); i++) {
            MemorySegment encoder = commands().encoder;
            if (launches > 0 && (i == 0 || recording.hasBarrier(i))) {
                MetalCommands.memoryBarrierWithScope(encoder, MetalCommands.BARRIER_BUFFERS);
            }
            list.get(i).encode(encoder);
            launches++;
            if (i + 1 == LAUNCHES_TO_START) {
                commit();
            }
        }
        commit();
    }

    private Commands commands() {
        if (open == null) {
            MemorySegment buffer = ObjcRuntime.objc_retain(ObjcRuntime.required(
                    MetalCommands.commandBufferWithUnretainedReferences(queue), name + ": command buffer"));
            MemorySegment encoder = ObjcRuntime.objc_retain(ObjcRuntime.required(
                    MetalCommands.computeCommandEncoderWithDispatchType(buffer, MetalCommands.CONCURRENT),
                    name + ": compute command encoder"));
            if (fenced) {
                MetalCommands.waitForFence(encoder, fence);
            }
            open = new Commands(buffer, encoder, spare.isEmpty() ? ScalarBuffer.allocate(device) : spare.removeLast());
        }
        return open;
    }

    /** Submits what was encoded so far. */
    private void commit() {
        if (open == null) {
            return;
        }
        MetalCommands.updateFence(open.encoder, fence);
        MetalCommands.endEncoding(open.encoder);
        MetalCommands.commit(open.buffer);
        ObjcRuntime.objc_release(open.encoder);
        submitted.add(open);
        open = null;
        launches = 0;
        fenced = true;
        hazards.clear();
        while (!submitted.isEmpty() && isDone(submitted.getFirst())) {
            finish(submitted.removeFirst());
        }
    }

    private static boolean isDone(Commands commands) {
        return MetalCommands.status(commands.buffer) >= MetalCommands.COMPLETED;
    }

    /** Returns true if the GPU has nothing to do. */
    boolean isIdle() {
        return open == null && (submitted.isEmpty() || isDone(submitted.getLast()));
    }

    /** Commits, waits, and throws the first error of a command buffer. */
    void synchronize() {
        commit();
        if (!submitted.isEmpty()) {
            MetalCommands.waitUntilCompleted(submitted.getLast().buffer);
        }
        while (!submitted.isEmpty()) {
            finish(submitted.removeFirst());
        }
    }

    /** Releases a command buffer that is done, and throws its error. */
    private void finish(Commands done) {
        done.scalars.clear();
        spare.add(done.scalars);
        try {
            if (MetalCommands.status(done.buffer) == MetalCommands.ERROR) {
                throw failure(MetalCommands.error(done.buffer));
            }
        } finally {
            ObjcRuntime.objc_release(done.buffer);
        }
    }

    private DeviceException failure(MemorySegment error) {
        long code = error.address() == 0 ? 0 : Foundation.code(error);
        String text = "%s: the GPU could not run a command buffer: %s (code %d)"
                .formatted(name, Foundation.describe(error), code);
        return code == MetalCommands.ERROR_OUT_OF_MEMORY
                ? new MemoryException(text + "; end what else uses the GPU, or ask for less")
                : new DeviceException(text);
    }

    /** Waits for everything, even after a failure. Throws the first error of a command buffer. */
    void close() {
        @Nullable DeviceException failure = null;
        while (open != null || !submitted.isEmpty()) {
            try {
                synchronize();
            } catch (DeviceException e) {
                failure = failure == null ? e : failure;
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    /** Releases everything, after {@link #close}. */
    void release() {
        spare.forEach(each -> each.memory().release());
        spare.clear();
        resident.ifPresent(ResidencySet::release);
        ObjcRuntime.objc_release(fence);
        ObjcRuntime.objc_release(queue);
    }
}
