package dev.starforge.api;

import java.io.UncheckedIOException;
import java.util.function.Supplier;

/** What failed for a foreseen reason: the message names the file, key or device, what was expected, and what to do. */
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
     * Runs something; what the modules behind this one throw, which nobody outside can name, becomes this type, and so does
     * what files do to them.
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
