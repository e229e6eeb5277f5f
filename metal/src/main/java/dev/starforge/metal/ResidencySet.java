package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;

import dev.starforge.tensor.device.DeviceException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Optional;

/**
 * The buffers of a device, which the system then keeps in GPU memory. Without a set (before macOS 15) it may take memory of an idle GPU
 * away, and the next step waits for it.
 */
record ResidencySet(MemorySegment set) {
    private static final int OLDEST_SYSTEM = 15;

    /** A set for all command buffers of a queue; empty if the system has none. Call this within an {@link AutoreleasePool}. */
    static Optional<ResidencySet> of(MemorySegment device, MetalChip chip, MemorySegment queue) {
        if (chip.systemMajor() < OLDEST_SYSTEM) {
            return Optional.empty();
        }
        MemorySegment descriptor = ObjcRuntime.required(
                MetalDriver.new_(ObjcRuntime.objc_getClass("MTLResidencySetDescriptor")),
                "new MTLResidencySetDescriptor");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment error = arena.allocate(ADDRESS);
            MemorySegment set = MetalDriver.newResidencySetWithDescriptor_error(device, descriptor, error);
            if (set.address() == 0) {
                throw new DeviceException("metal: no residency set: " + Foundation.describe(error.get(ADDRESS, 0)));
            }
            MetalCommands.addResidencySet(queue, set);
            return Optional.of(new ResidencySet(set));
        } finally {
            ObjcRuntime.objc_release(descriptor);
        }
    }

    void add(MetalMemory memory) {
        MetalDriver.addAllocation(set, memory.buffer());
        MetalCommands.commit(set);
        MetalDriver.requestResidency(set);
    }

    /** Call this before the buffer is released. */
    void remove(MetalMemory memory) {
        MetalDriver.removeAllocation(set, memory.buffer());
        MetalCommands.commit(set);
    }

    void release() {
        ObjcRuntime.objc_release(set);
    }
}
