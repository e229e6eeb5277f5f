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

/** Host memory outside the Java heap, aligned for the widest vectors; what the reference and the CPU backend compute on. */
public final class HostMemory implements Memory {
    private static final long ALIGNMENT = 64;
    private static final ValueLayout.OfFloat FLOAT =
            ValueLayout.JAVA_FLOAT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final Arena arena = Arena.ofShared();
    private final MemorySegment segment;
    private final Optional<FileRegion> file;

    /**
     * Where memory comes from that holds zeros, begins at a multiple of 64 and goes back when the arena closes; it throws
     * {@link OutOfMemoryError} where there is none.
     */
    public interface HostAllocator {
        MemorySegment allocate(Arena arena, long bytes);

        /** What Java hands out. */
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
            throw new MemoryException("reserve " + bytes + " bytes of host memory: there is not as much", full);
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

    /** A file's own bytes, which come into memory when they are first used. */
    public static Memory map(FileRegion region) {
        try {
            return new HostMemory(region);
        } catch (IOException failure) {
            throw new DeviceException(
                    "map " + region.bytes() + " bytes at " + region.from() + " of " + region.file() + ": " + failure,
                    failure);
        }
    }

    /** What became of an operation that met the end of a mapped file: someone made the file shorter. */
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
                        + ", which are in use: was the file replaced or cut? Load the model again",
                fault);
    }

    /**
     * To be called by whatever reads a tensor's memory with vectors: where the end of a mapped file is met, the compiler has
     * the fault thrown as an error in methods that also read without vectors, and ends the JVM in others.
     */
    public static void guard(MemorySegment memory, long at) {
        memory.get(ValueLayout.JAVA_BYTE, at);
    }

    /**
     * Several stretches by several threads. Java zeroes memory before it hands it out, page by page on the thread that
     * asks, which for the weights of a model takes as long as reading them.
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

    /** A stretch, or why there is none: all must have been tried before any is given back. */
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
        if (to.dtype().isQuantized()) {
            requireAll(to, from);
        }
        write(to, 0, from);
    }

    /** Throws unless there are as many bytes as a tensor has. */
    public static void requireAll(Tensor to, ByteBuffer from) {
        if (from.remaining() != to.bytes()) {
            throw new ShapeException(
                    "write: " + from.remaining() + " bytes to tensor " + to + ", expected all its " + to.bytes());
        }
    }

    /** Bytes as they are, from byte {@code at} of a tensor on. */
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
