package dev.starforge.serve.pool.worker;

import java.util.List;

/**
 * The health that a worker reports.
 *
 * @param status {@code loading}, {@code ok}, {@code draining} or {@code failed}
 * @param model model name; empty while it loads
 * @param memory device memory in use
 * @param running running and waiting requests of all clients
 */
public record WorkerHealth(
        String status,
        String workerId,
        String model,
        String device,
        long memory,
        long running,
        List<String> capabilities,
        List<String> adapters) {
    public WorkerHealth {
        capabilities = List.copyOf(capabilities);
        adapters = List.copyOf(adapters);
    }
}
