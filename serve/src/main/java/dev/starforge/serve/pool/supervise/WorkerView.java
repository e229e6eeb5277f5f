package dev.starforge.serve.pool.supervise;

import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * How a worker is, at one moment.
 *
 * @param own whether this pool started it
 * @param model the name that requests ask for
 * @param reserved bytes of its device that nobody else gets
 * @param lastExit how its last process ended; empty if none has
 * @param reason of what went wrong last; empty if nothing has
 * @param requests that go through the pool and are under way
 * @param restartSeconds until it is started again; below 0 when that is not to happen
 */
public record WorkerView(
        String id,
        boolean own,
        String model,
        String device,
        WorkerState state,
        long reserved,
        long memoryUsed,
        String uri,
        Optional<Instant> startedAt,
        int restarts,
        String lastExit,
        String reason,
        int requests,
        double restartSeconds,
        List<String> capabilities,
        List<String> adapters) {}
