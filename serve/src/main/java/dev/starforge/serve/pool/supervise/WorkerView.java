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
 * @param requests that go through the pool and are under way
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
        WorkerFailure failure,
        int requests,
        List<String> capabilities,
        List<String> adapters) {}
