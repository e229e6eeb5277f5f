package dev.starforge.metal;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;

/**
 * The launches of a step, to be encoded again for each replay. An indirect command buffer would save a few messages per launch, but
 * would make all resources resident by name; neither MLX nor llama.cpp uses one.
 */
final class Recording implements LaunchSink, AutoCloseable {
    private final MemorySegment device;
    private final Arena arena = Arena.ofConfined();
    private final HazardTracker hazards = new HazardTracker();
    private final List<EncodedLaunch> launches = new ArrayList<>();
    private final BitSet barriers = new BitSet();
    private final List<ScalarBuffer> scalars = new ArrayList<>();

    Recording(MemorySegment device) {
        this.device = device;
    }

    @Override
    public SegmentAllocator allocator() {
        return arena;
    }

    @Override
    public ScalarBuffer scalars(long bytes) {
        if (scalars.isEmpty() || !scalars.getLast().hasRoom(bytes)) {
            scalars.add(ScalarBuffer.allocate(device));
        }
        return scalars.getLast();
    }

    @Override
    public void add(EncodedLaunch launch) {
        barriers.set(launches.size(), hazards.needsBarrier(launch.bytes()));
        launches.add(launch);
    }

    List<EncodedLaunch> launches() {
        return launches;
    }

    /** Returns true if a barrier precedes launch {@code i}. */
    boolean hasBarrier(int i) {
        return barriers.get(i);
    }

    /** Releases the memory. No replay may be running. */
    @Override
    public void close() {
        scalars.forEach(each -> each.memory().release());
        arena.close();
    }
}
