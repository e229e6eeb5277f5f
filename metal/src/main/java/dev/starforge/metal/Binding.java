package dev.starforge.metal;

import dev.starforge.metal.HazardTracker.ByteRanges;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
import java.util.Arrays;

/** Builder of an {@link EncodedLaunch}: the arguments by index, and the bytes that they read and write. */
final class Binding {
    private final MemorySegment[] buffers;
    private final long[] offsets;
    private final long[] read;
    private final long[] written;
    private int readBounds;
    private int writtenBounds;

    Binding(int count) {
        buffers = new MemorySegment[count];
        offsets = new long[count];
        read = new long[2 * count];
        written = new long[2 * count];
    }

    /** An argument of {@code bytes} bytes. An empty one has no address, since an offset must be inside of its buffer. */
    Binding bytes(int index, MetalMemory memory, long offset, long bytes, boolean writes) {
        buffers[index] = memory.buffer();
        offsets[index] = bytes == 0 ? 0 : memory.begin() + offset;
        if (bytes > 0) {
            long begin = memory.contents().address() + offset;
            long[] bounds = writes ? written : read;
            int at = writes ? writtenBounds : readBounds;
            bounds[at] = begin;
            bounds[at + 1] = begin + bytes;
            writtenBounds += writes ? 2 : 0;
            readBounds += writes ? 0 : 2;
        }
        return this;
    }

    /** A scalar that no launch writes. */
    Binding scalar(int index, MetalMemory memory, long offset) {
        buffers[index] = memory.buffer();
        offsets[index] = memory.begin() + offset;
        return this;
    }

    /** An argument that the kernel does not use, bound to any buffer, because Metal wants each to have one. */
    void unused(int index, MetalMemory memory) {
        buffers[index] = memory.buffer();
    }

    EncodedLaunch encode(SegmentAllocator allocator, MemorySegment pipeline, long threads, long x, long y, long z) {
        return EncodedLaunch.of(
                allocator,
                pipeline,
                buffers,
                offsets,
                new long[] {x, y, z},
                threads,
                new ByteRanges(Arrays.copyOf(read, readBounds), Arrays.copyOf(written, writtenBounds)));
    }
}
