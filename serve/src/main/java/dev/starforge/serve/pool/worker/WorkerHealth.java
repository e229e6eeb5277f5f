package dev.starforge.serve.pool.worker;

import java.util.List;

/**
 * The health that a worker reports.
 *
 * @param status {@code loading}, {@code ok}, {@code draining} or {@code failed}
 * @param model model name; empty while it loads
 * @param names all names of the model and of its base, without those of adapters
 * @param memory device memory in use
 * @param running running and waiting requests of all clients
 * @param generated tokens generated since its start; grows while the engine works
 */
public record WorkerHealth(
        String status,
        String workerId,
        String model,
        List<String> names,
        String device,
        long memory,
        long running,
        long generated,
        List<String> capabilities,
        List<String> adapters) {
    public WorkerHealth {
        names = List.copyOf(names);
        capabilities = List.copyOf(capabilities);
        adapters = List.copyOf(adapters);
    }

    /** Returns true if requests can name the model or adapter. */
    public boolean serves(String name) {
        return model.equals(name) || names.contains(name) || adapters.contains(name);
    }

    /** Returns true if it serves requests. */
    public boolean isServing() {
        return status.equals("ok");
    }
}
