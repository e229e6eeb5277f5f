package dev.starforge.metal;

import java.lang.foreign.SegmentAllocator;

/** Takes launches: encodes them for the GPU, or records them. */
interface LaunchSink {
    /** For the native memory of the next launch. */
    SegmentAllocator allocator();

    /** A buffer with room for the scalars of the next launch. */
    ScalarBuffer scalars(long bytes);

    void add(EncodedLaunch launch);
}
