package dev.starforge.tensor.host;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Optional;

/** Off-heap host memory, aligned for the widest vectors. The reference and the CPU backend compute on it. */
public final class HostMemory implements Memory {
    private static final long ALIGNMENT = 64;
    private static final ValueLayout.OfFloat FLOAT =
            ValueLayout.JAVA_FLOAT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final Arena arena = Arena.ofShared();
    private final MemorySegment segment;
    private final Optional<FileRegion> file;

    /**
     * Allocates zeroed memory, aligned to 64 bytes, which is freed when the arena closes. Throws {@link OutOfMemoryError} if
     * there is not enough.
     */
    public interface HostAllocator {
        MemorySegment allocate(Arena arena, long bytes);

        /** Allocates from the arena. */
        HostAllocator JAVA = (arena, bytes) -> arena.allocate(bytes, ALIGNMENT);
    }

    public HostMemory(long bytes) {
        this(bytes, HostAllocator.JAVA);
    }

    public HostMemory(long bytes, HostAllocator source) {
        file = Optional.empty();
        try {
            segment = source.allocate(arena, bytes);
        } catch (OutOfMemoryError full) {
            arena.close();
            throw new MemoryException("reserve " + bytes + " bytes of host memory: out of memory", full);
        }
    }

    private HostMemory(FileRegion region) throws IOException {
        file = Optional.of(region);
        try (FileChannel channel = FileChannel.open(region.file(), StandardOpenOption.READ)) {
            if (region.from() > channel.size() - region.bytes()) {
                throw new EOFException("the file ends at " + channel.size());
            }
            segment = channel.map(FileChannel.MapMode.READ_ONLY, region.from(), region.bytes(), arena);
        }
    }

    /** Memory-maps a region of a file. */
    public static Memory map(FileRegion region) {
        try {
            return new HostMemory(region);
        } catch (IOException failure) {
            throw new DeviceException(
                    "map " + region.bytes() + " bytes at " + region.from() + " of " + region.file() + ": " + failure,
                    failure);
        }
    }

    /** Returns the exception for an operation that read past the end of a memory-mapped file, because the file was truncated. */
    public static DeviceException cut(Tensor[] read, InternalError fault) {
        for (Tensor tensor : read) {
            Optional<FileRegion> file = ((HostMemory) tensor.memory()).file;
            if (file.isPresent()) {
                return cut(file.get(), fault);
            }
        }
        throw fault;
    }

    private static DeviceException cut(FileRegion region, InternalError fault) {
        return new DeviceException(
                region.file() + ": cannot be read at bytes " + region.from() + " to "
                        + (region.from() + region.bytes() - 1)
                        + ", which are memory-mapped: was the file replaced or truncated? Load the model again",
                fault);
    }

    /**
     * Reads one byte. Call this before reading a tensor's memory with vectors: at the end of a truncated mapped file a scalar
     * read makes the JVM throw an error, while a method with vector reads only crashes it.
     */
    public static void guard(MemorySegment memory, long at) {
        memory.get(ValueLayout.JAVA_BYTE, at);
    }

    /**
     * Allocates several blocks with several threads. Java zeroes memory page by page on the allocating thread, which for the
     * weights of a model takes as long as reading them.
     */
    public static List<Memory> all(List<Long> bytes, HostAllocator source) {
        List<Attempt> attempts =
                bytes.parallelStream().map(each -> attempt(each, source)).toList();
        for (Attempt attempt : attempts) {
            attempt.failure.ifPresent(full -> {
                attempts.forEach(each -> each.memory.ifPresent(HostMemory::free));
                throw full;
            });
        }
        return attempts.stream().map(each -> each.memory.orElseThrow()).toList();
    }

    /** A block, or why it could not be allocated. All are tried before any is freed. */
    private record Attempt(Optional<Memory> memory, Optional<MemoryException> failure) {}

    private static Attempt attempt(long bytes, HostAllocator source) {
        try {
            return new Attempt(Optional.of(new HostMemory(bytes, source)), Optional.empty());
        } catch (MemoryException full) {
            return new Attempt(Optional.empty(), Optional.of(full));
        }
    }

    @Override
    public long bytes() {
        return segment.byteSize();
    }

    /** The whole block; kernels add {@link Tensor#offset()}. */
    public MemorySegment segment() {
        return segment;
    }

    public static void free(Memory memory) {
        ((HostMemory) memory).arena.close();
    }

    /** The bytes of one tensor. */
    public static MemorySegment segment(Tensor tensor) {
        return ((HostMemory) tensor.memory()).segment.asSlice(tensor.offset(), tensor.bytes());
    }

    public static void write(Tensor to, ByteBuffer from) {
        MemorySegment source = MemorySegment.ofBuffer(from);
        if (source.byteSize() > to.bytes()) {
            throw new ShapeException("write: " + source.byteSize() + " bytes to tensor " + to);
        }
        if (to.dtype().isQuantized()) {
            requireAll(to, from);
        }
        write(to, 0, from);
    }

    /** Throws unless the buffer holds all bytes of the tensor. */
    public static void requireAll(Tensor to, ByteBuffer from) {
        if (from.remaining() != to.bytes()) {
            throw new ShapeException(
                    "write: " + from.remaining() + " bytes to tensor " + to + ", expected all its " + to.bytes());
        }
    }

    /** Copies bytes to a tensor, from byte {@code at} on. */
    public static void write(Tensor to, long at, ByteBuffer from) {
        MemorySegment source = MemorySegment.ofBuffer(from);
        MemorySegment.copy(source, 0, segment(to), at, source.byteSize());
    }

    public static void write(Tensor to, int... values) {
        require(to, DType.I32, values.length);
        MemorySegment.copy(values, 0, segment(to), INT, 0, values.length);
    }

    public static int[] ints(Tensor from) {
        int[] values = new int[Math.toIntExact(from.shape().size())];
        require(from, DType.I32, values.length);
        MemorySegment.copy(segment(from), INT, 0, values, 0, values.length);
        return values;
    }

    public static void floats(Tensor from, float[] values) {
        require(from, DType.F32, values.length);
        MemorySegment.copy(segment(from), FLOAT, 0, values, 0, values.length);
    }

    private static void require(Tensor tensor, DType type, int count) {
        if (tensor.dtype() != type || tensor.shape().size() != count) {
            throw new ShapeException("copy: " + count + " elements of " + type + " against tensor " + tensor);
        }
    }

    public static void read(Tensor from, ByteBuffer to) {
        MemorySegment target = MemorySegment.ofBuffer(to);
        if (target.byteSize() < from.bytes()) {
            throw new ShapeException("read: tensor " + from + " into " + target.byteSize() + " bytes");
        }
        target.copyFrom(segment(from));
    }
}
