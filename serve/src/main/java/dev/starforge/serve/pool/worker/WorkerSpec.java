package dev.starforge.serve.pool.worker;

import java.nio.file.Path;
import java.util.Map;

/**
 * The settings that a worker is started with.
 *
 * @param model model name in the API
 * @param device device id such as {@code cuda:0}
 * @param reserved device memory reserved for it
 * @param kvBytes size of the KV cache
 */
public record WorkerSpec(
        String model, Path path, String device, Map<String, Path> adapters, long reserved, long kvBytes) {
    public static final String TYPE = "starforge";

    public WorkerSpec {
        adapters = Map.copyOf(adapters);
    }
}
