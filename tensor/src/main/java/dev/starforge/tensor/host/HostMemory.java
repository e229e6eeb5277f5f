package dev.starforge.tensor.host;

import dev.starforge.tensor.Memory;
import dev.starforge.tensor.MemoryException;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;

/** Host memory outside the Java heap, aligned for the widest vectors; what the reference and the CPU backend compute on. */
public final class HostMemory implements Memory {
    private static final long ALIGNMENT = 64;

    private final Arena arena = Arena.ofShared();
    private final MemorySegment segment;

    public HostMemory(long bytes) {
        try {
            segment = arena.allocate(bytes, ALIGNMENT);
        } catch (OutOfMemoryError full) {
            arena.close();
            throw new MemoryException("reserve " + bytes + " bytes of host memory: there is not as much", full);
        }
    }

    @Override
    public long bytes() {
        return segment.byteSize();
    }

    /** The whole stretch; kernels add {@link Tensor#offset()}. */
    public MemorySegment segment() {
        return segment;
    }

    public static void free(Memory memory) {
        ((HostMemory) memory).arena.close();
    }

    /** Just the bytes of one tensor. */
    public static MemorySegment segment(Tensor tensor) {
        return ((HostMemory) tensor.memory()).segment.asSlice(tensor.offset(), tensor.bytes());
    }

    public static void write(Tensor to, ByteBuffer from) {
        MemorySegment source = MemorySegment.ofBuffer(from);
        if (source.byteSize() > to.bytes()) {
            throw new ShapeException("write: " + source.byteSize() + " bytes to tensor " + to);
        }
        segment(to).copyFrom(source);
    }

    public static void read(Tensor from, ByteBuffer to) {
        MemorySegment target = MemorySegment.ofBuffer(to);
        if (target.byteSize() < from.bytes()) {
            throw new ShapeException("read: tensor " + from + " into " + target.byteSize() + " bytes");
        }
        target.copyFrom(segment(from));
    }
}
