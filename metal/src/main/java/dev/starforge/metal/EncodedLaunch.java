package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;

/**
 * A launch as the messages to an encoder take it: pipeline, buffers with offsets from index 0 on, and two MTLSizes.
 *
 * @param bytes what the launch reads and writes
 */
record EncodedLaunch(
        MemorySegment pipeline,
        MemorySegment buffers,
        MemorySegment offsets,
        MemorySegment range,
        MemorySegment groups,
        MemorySegment threads,
        HazardTracker.ByteRanges bytes) {
    /** Bytes of native memory that {@link #of} allocates at most, for the 31 buffers that Metal has. */
    static final long NATIVE_BYTES = 1024;

    static final int MAX_BUFFERS = 31;

    static EncodedLaunch of(
            SegmentAllocator allocator,
            MemorySegment pipeline,
            MemorySegment[] buffers,
            long[] offsets,
            long[] groups,
            long threads,
            HazardTracker.ByteRanges bytes) {
        MemorySegment objects = allocator.allocate(ADDRESS, buffers.length);
        MemorySegment starts = allocator.allocate(JAVA_LONG, buffers.length);
        for (int i = 0; i < buffers.length; i++) {
            objects.setAtIndex(ADDRESS, i, buffers[i]);
            starts.setAtIndex(JAVA_LONG, i, offsets[i]);
        }
        MemorySegment range = allocator.allocate(MetalCommands.RANGE);
        range.setAtIndex(JAVA_LONG, 0, 0);
        range.setAtIndex(JAVA_LONG, 1, buffers.length);
        return new EncodedLaunch(
                pipeline,
                objects,
                starts,
                range,
                size(allocator, groups[0], groups[1], groups[2]),
                size(allocator, threads, 1, 1),
                bytes);
    }

    private static MemorySegment size(SegmentAllocator allocator, long width, long height, long depth) {
        MemorySegment size = allocator.allocate(MetalCommands.SIZE);
        size.setAtIndex(JAVA_LONG, 0, width);
        size.setAtIndex(JAVA_LONG, 1, height);
        size.setAtIndex(JAVA_LONG, 2, depth);
        return size;
    }

    void encode(MemorySegment encoder) {
        MetalCommands.setComputePipelineState(encoder, pipeline);
        MetalCommands.setBuffers_offsets_withRange(encoder, buffers, offsets, range);
        MetalCommands.dispatchThreadgroups_threadsPerThreadgroup(encoder, groups, threads);
    }
}
