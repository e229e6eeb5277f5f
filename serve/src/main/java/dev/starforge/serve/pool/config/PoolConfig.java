package dev.starforge.serve.pool.config;

import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * What {@code pool.yaml} says.
 *
 * @param id of this pool, in its state and metrics
 * @param state the folder of its journal and its workers' logs
 * @param listen {@code HOST:PORT}
 * @param apiKeyFile keys of clients, which its workers are started with, too
 */
public record PoolConfig(
        String id,
        Path state,
        String listen,
        Optional<Path> apiKeyFile,
        RestartPolicy restart,
        List<ModelEntry> models,
        List<RemoteEntry> workers) {
    public static final String LISTEN = "127.0.0.1:9200";

    public PoolConfig {
        models = List.copyOf(models);
        workers = List.copyOf(workers);
        Set<String> names = new HashSet<>();
        for (ModelEntry model : models) {
            if (!names.add(model.name())) {
                throw new IllegalArgumentException("models: " + model.name() + " is there twice");
            }
        }
    }

    /** Without a file. */
    public static PoolConfig empty(Path state) {
        return new PoolConfig("pool", state, LISTEN, Optional.empty(), RestartPolicy.DEFAULT, List.of(), List.of());
    }

    public Optional<ModelEntry> model(String name) {
        return models.stream().filter(model -> model.name().equals(name)).findFirst();
    }

    public PoolConfig withListen(String address) {
        return new PoolConfig(id, state, address, apiKeyFile, restart, models, workers);
    }
}
