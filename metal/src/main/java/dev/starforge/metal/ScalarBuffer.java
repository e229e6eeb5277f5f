package dev.starforge.metal;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.starforge.kernels.Launch.Argument;
import dev.starforge.tensor.device.MemoryException;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * A buffer with the scalar arguments of launches: each is one {@code constant} argument at an offset. Binding buffers takes one
 * message for all arguments of a launch, while bytes would take one for each.
 */
final class ScalarBuffer {
    /** Enough for a command buffer of launches with as many arguments as Metal allows. */
    private static final long BYTES = 16 << 10;

    private final MetalMemory memory;
    private long used;

    private ScalarBuffer(MetalMemory memory) {
        this.memory = memory;
    }

    static ScalarBuffer allocate(MemorySegment device) {
        MetalMemory memory = MetalMemory.allocate(device, BYTES);
        if (memory.isNil()) {
            throw new MemoryException("metal: no memory for " + BYTES + " bytes of kernel arguments");
        }
        return new ScalarBuffer(memory);
    }

    MetalMemory memory() {
        return memory;
    }

    boolean hasRoom(long bytes) {
        return used + bytes <= memory.bytes();
    }

    /** Forgets the arguments, after the GPU has read them. */
    void clear() {
        used = 0;
    }

    /** Bytes that the scalars among the arguments take. */
    static long bytes(List<Argument> arguments) {
        long bytes = 0;
        for (Argument argument : arguments) {
            bytes += bytes(argument);
        }
        return bytes;
    }

    private static long bytes(Argument argument) {
        return switch (argument) {
            case Argument.Buffer _, Argument.Absent _, Argument.Workspace _ -> 0;
            case Argument.Int _, Argument.Long _, Argument.Float _ -> JAVA_LONG.byteSize();
            case Argument.Struct struct ->
                JAVA_LONG.byteSize() * struct.values().size();
        };
    }

    /** Writes a scalar and returns its offset. */
    long put(Argument argument) {
        long at = used;
        switch (argument) {
            case Argument.Int number -> memory.contents().set(JAVA_INT, at, number.value());
            case Argument.Long number -> memory.contents().set(JAVA_LONG, at, number.value());
            case Argument.Float number -> memory.contents().set(JAVA_FLOAT, at, number.value());
            case Argument.Struct struct -> {
                for (int i = 0; i < struct.values().size(); i++) {
                    memory.contents()
                            .set(
                                    JAVA_LONG,
                                    at + JAVA_LONG.byteSize() * i,
                                    struct.values().get(i));
                }
            }
            case Argument.Buffer _, Argument.Absent _, Argument.Workspace _ ->
                throw new IllegalArgumentException(argument + " is not a scalar");
        }
        used += bytes(argument);
        return at;
    }
}
