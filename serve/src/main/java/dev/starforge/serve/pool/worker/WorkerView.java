package dev.starforge.serve.pool.worker;

import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * Snapshot of a worker.
 *
 * @param own whether a pool started it
 * @param model model name in the API
 * @param names further names of the model, as far as they are known; may contain {@code model}
 * @param reserved device memory reserved for it
 * @param requests requests of the pool in flight
 */
public record WorkerView(
        String id,
        boolean own,
        String model,
        List<String> names,
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
