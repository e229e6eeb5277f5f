package dev.starforge.conformance.emulator;

import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Host memory as the memory of an emulated device. It is filled with NaN, to detect reads of uninitialized memory. */
record EmulatedMemory(Arena arena, MemorySegment segment) implements Memory {
    private static final long ALIGNMENT = 256;
    private static final byte ALL_ONES = -1;

    static EmulatedMemory of(long bytes) {
        Arena arena = Arena.ofConfined();
        return new EmulatedMemory(arena, arena.allocate(bytes, ALIGNMENT).fill(ALL_ONES));
    }

    static MemorySegment segment(Tensor tensor) {
        return ((EmulatedMemory) tensor.memory()).segment.asSlice(tensor.offset(), tensor.bytes());
    }

    @Override
    public long bytes() {
        return segment.byteSize();
    }
}
