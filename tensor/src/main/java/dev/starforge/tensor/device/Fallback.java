package dev.starforge.tensor.device;

import dev.starforge.tensor.op.Op;
import java.util.Set;
import java.util.function.Consumer;

/**
 * What happens if a device has no kernel for a fused operation.
 *
 * @param allowed whether the expansion may run instead; if not, the operation is named in an error
 * @param off operations whose kernels are not used although the device has them
 * @param log receives one message for each operation that falls back
 */
public record Fallback(boolean allowed, Set<Class<? extends Op>> off, Consumer<String> log) {
    public static final Fallback QUIET = new Fallback(true, Set.of(), line -> {});

    public static final Fallback FORBIDDEN = new Fallback(false, Set.of(), line -> {});

    public static Fallback without(Class<? extends Op> op) {
        return new Fallback(true, Set.of(op), line -> {});
    }
}
