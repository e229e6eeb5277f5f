package dev.starforge.serve.api;

import dev.starforge.serve.http.ByteBudget;
import dev.starforge.serve.http.HttpException;
import java.time.Duration;
import java.util.Map;

/** The heap that one request takes while it is parsed and tokenized, reserved from the budget of all requests. Not thread-safe. */
final class RequestMemory implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final ByteBudget budget;
    private final Runnable onRejected;
    private long reserved;

    /** @param onRejected is called when other requests take all of the budget */
    RequestMemory(ByteBudget budget, Runnable onRejected) {
        this.budget = budget;
        this.onRejected = onRejected;
    }

    /** Releases what is reserved and reserves {@code bytes}; waits for other requests. */
    void resize(long bytes) throws InterruptedException {
        close();
        if (bytes > budget.total()) {
            throw new HttpException(
                    413,
                    "body_too_large",
                    "the request may take " + bytes + " bytes of memory, and the server has " + budget.total()
                            + " for requests; start it with a larger heap (STARFORGE_JAVA_OPTS=-Xmx...)");
        }
        if (!budget.reserve(bytes, PATIENCE)) {
            onRejected.run();
            throw new HttpException(
                    429,
                    "too_many_requests",
                    "other requests take all of the memory that the server has for them",
                    Map.of("Retry-After", "1"));
        }
        reserved = bytes;
    }

    /** Releases what is reserved; idempotent. */
    @Override
    public void close() {
        budget.release(reserved);
        reserved = 0;
    }
}
