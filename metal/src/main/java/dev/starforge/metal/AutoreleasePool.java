package dev.starforge.metal;

import java.lang.foreign.MemorySegment;

/** Releases the objects that were autoreleased on this thread since it was opened. Pools nest. */
record AutoreleasePool(MemorySegment pool) implements AutoCloseable {
    static AutoreleasePool open() {
        return new AutoreleasePool(ObjcRuntime.objc_autoreleasePoolPush());
    }

    @Override
    public void close() {
        ObjcRuntime.objc_autoreleasePoolPop(pool);
    }
}
