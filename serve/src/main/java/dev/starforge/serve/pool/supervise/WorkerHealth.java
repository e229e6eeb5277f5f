package dev.starforge.serve.pool.supervise;

import java.util.List;

/**
 * What a worker says of itself.
 *
 * @param status {@code loading}, {@code ok}, {@code draining} or {@code failed}
 * @param model the name it knows its model by; empty while it loads
 * @param memory bytes in use
 * @param running requests it computes, whoever sent them
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
