package dev.starforge.serve.pool.config;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * A model of the pool; a worker is started on demand.
 *
 * @param name model name in the API
 * @param path model folder or GGUF file
 * @param device {@code cpu}, {@code cuda:0}, or a kind alone; empty for the default of the machine
 * @param adapters LoRA adapters by name
 * @param autostart whether a worker starts with the pool, not on the first request
 * @param idleStop idle time after which the worker is stopped; empty for never
 */
public record ModelEntry(
        String name,
        Path path,
        String device,
        Map<String, Path> adapters,
        boolean autostart,
        Optional<Duration> idleStop) {
    public ModelEntry {
        adapters = Map.copyOf(adapters);
    }
}
