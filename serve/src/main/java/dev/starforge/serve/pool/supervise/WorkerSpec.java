package dev.starforge.serve.pool.supervise;

import java.nio.file.Path;
import java.util.Map;

/**
 * What a worker is started with.
 *
 * @param model the name that clients know it by
 * @param device the id of its device, {@code cuda:0}
 * @param reserved bytes of the device that are its own
 * @param kvBytes of them for cached keys and values
 */
public record WorkerSpec(
        String model, Path path, String device, Map<String, Path> adapters, long reserved, long kvBytes) {
    public static final String TYPE = "starforge";

    public WorkerSpec {
        adapters = Map.copyOf(adapters);
    }
}
