package dev.starforge.serve.pool.config;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * A model that requests may ask for; a worker is started for it when one does.
 *
 * @param name that clients know it by
 * @param path a folder or a GGUF file
 * @param device {@code cpu}, {@code cuda:0}, or a kind alone; empty is the best kind of the machine
 * @param adapters LoRA adapters by name
 * @param autostart with the pool, not with the first request
 * @param idleStop stopped after so long without a request; empty is never
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
