package dev.starforge.tensor.host;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.Memory;
import dev.starforge.tensor.MemoryException;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Optional;

/** Host memory outside the Java heap, aligned for the widest vectors; what the reference and the CPU backend compute on. */
public final class HostMemory implements Memory {
    private static final long ALIGNMENT = 64;
    private static final long EXPONENTS = 0x7c007c007c007c00L;
    private static final long ONES = 0x0400040004000400L;
    private static final long SIGNS = 0x8000800080008000L;
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final Arena arena = Arena.ofShared();
    private final MemorySegment segment;
    private boolean special;

    public HostMemory(long bytes) {
        try {
            segment = arena.allocate(bytes, ALIGNMENT);
        } catch (OutOfMemoryError full) {
            arena.close();
            throw new MemoryException("reserve " + bytes + " bytes of host memory: there is not as much", full);
        }
    }

    /**
     * Several stretches by several threads. Java zeroes memory before it hands it out, page by page on the thread that
     * asks, which for the weights of a model takes as long as reading them.
     */
    public static List<Memory> all(List<Long> bytes) {
        List<Attempt> attempts = bytes.parallelStream().map(HostMemory::attempt).toList();
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

    private static Attempt attempt(long bytes) {
        try {
            return new Attempt(Optional.of(new HostMemory(bytes)), Optional.empty());
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

    /** Whether a half that is not a finite number was ever written here: kernels that count on finite ones must not. */
    public static boolean special(Tensor tensor) {
        return ((HostMemory) tensor.memory()).special;
    }

    /** Says that a half that is not finite may be among a tensor's elements. */
    public static void markSpecial(Tensor tensor) {
        ((HostMemory) tensor.memory()).special = true;
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
        if (to.dtype().isBlock() && source.byteSize() != to.bytes()) {
            throw new ShapeException(
                    "write: " + source.byteSize() + " bytes to tensor " + to + ", expected all its " + to.bytes());
        }
        segment(to).copyFrom(source);
        if (to.dtype() == DType.F16 && !finite(source)) {
            markSpecial(to);
        }
    }

    /** Whether all halves are finite: adding one to a full exponent carries into the sign. */
    private static boolean finite(MemorySegment halves) {
        long carried = 0;
        long whole = halves.byteSize() & -Long.BYTES;
        for (long i = 0; i < whole; i += Long.BYTES) {
            carried |= (halves.get(ValueLayout.JAVA_LONG_UNALIGNED, i) & EXPONENTS) + ONES;
        }
        for (long i = whole; i < halves.byteSize(); i += Short.BYTES) {
            carried |= (halves.get(ValueLayout.JAVA_SHORT_UNALIGNED, i) & EXPONENTS & 0xffff) + 0x0400;
        }
        return (carried & SIGNS) == 0;
    }

    public static void write(Tensor to, int... values) {
        requireInts(to, values.length);
        MemorySegment.copy(values, 0, segment(to), INT, 0, values.length);
    }

    public static int[] ints(Tensor from) {
        int[] values = new int[Math.toIntExact(from.shape().size())];
        requireInts(from, values.length);
        MemorySegment.copy(segment(from), INT, 0, values, 0, values.length);
        return values;
    }

    private static void requireInts(Tensor tensor, int count) {
        if (tensor.dtype() != DType.I32 || tensor.shape().size() != count) {
            throw new ShapeException("copy: " + count + " elements of " + DType.I32 + " against tensor " + tensor);
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
