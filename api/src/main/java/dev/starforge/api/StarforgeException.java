package dev.starforge.api;

import java.io.UncheckedIOException;
import java.util.function.Supplier;

/** An operation failed for an expected reason. The message names the file, key or device and states what was expected. */
public final class StarforgeException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private static final String OURS = "dev.starforge.";

    StarforgeException(String message) {
        super(message);
    }

    private StarforgeException(RuntimeException cause) {
        super(cause.getMessage(), cause);
    }

    /**
     * Runs an operation and wraps the exceptions of internal modules and I/O errors, whose types are not exported, in this type.
     */
    static <T> T guard(Supplier<T> work) {
        try {
            return work.get();
        } catch (StarforgeException known) {
            throw known;
        } catch (UncheckedIOException file) {
            throw new StarforgeException(file);
        } catch (RuntimeException failure) {
            throw failure.getClass().getName().startsWith(OURS) ? new StarforgeException(failure) : failure;
        }
    }
}
