package dev.starforge.metal;

import dev.starforge.tensor.Memory;
import dev.starforge.tensor.Tensor;
import java.lang.foreign.MemorySegment;

/**
 * An MTLBuffer in shared storage, which CPU and GPU address alike.
 *
 * @param buffer the owned object
 * @param contents its memory
 */
record MetalMemory(MemorySegment buffer, MemorySegment contents) implements Memory {
    /** Allocates memory of a device; the result is nil if there is not enough. */
    @SuppressWarnings("restricted") // the buffer has the requested size
    static MetalMemory allocate(MemorySegment device, long bytes) {
        MemorySegment buffer =
                MetalDriver.newBufferWithLength_options(device, Math.max(1, bytes), MetalDriver.SHARED_UNTRACKED);
        return buffer.address() == 0
                ? new MetalMemory(buffer, MemorySegment.NULL)
                : new MetalMemory(
                        buffer,
                        ObjcRuntime.required(MetalDriver.contents(buffer), "contents")
                                .reinterpret(bytes));
    }

    static MetalMemory of(Tensor tensor) {
        return (MetalMemory) tensor.memory();
    }

    /** The bytes of a tensor. */
    static MemorySegment segment(Tensor tensor) {
        return of(tensor).contents.asSlice(tensor.offset(), tensor.bytes());
    }

    boolean isNil() {
        return buffer.address() == 0;
    }

    void release() {
        ObjcRuntime.objc_release(buffer);
    }

    @Override
    public long bytes() {
        return contents.byteSize();
    }
}
