package dev.starforge.serve.pool.config;

import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;

/**
 * The settings of {@code pool.yaml}.
 *
 * @param id pool id in the log, the state and the health
 * @param state folder of the worker journal and the workers' logs
 * @param listen {@code HOST:PORT}
 * @param apiKeyFile client keys, which its workers accept as well
 * @param adminKeyFile keys for starting, stopping and registering workers
 * @param localAdmin whether all clients are admins; only without admin keys, and on a loopback address
 */
public record PoolConfig(
        String id,
        Path state,
        String listen,
        Optional<Path> apiKeyFile,
        Optional<Path> adminKeyFile,
        boolean localAdmin,
        RestartPolicy restart,
        List<ModelEntry> models,
        List<RemoteEntry> workers) {
    public static final String LISTEN = "127.0.0.1:9200";

    public PoolConfig {
        models = List.copyOf(models);
        workers = List.copyOf(workers);
        if (localAdmin && adminKeyFile.isPresent()) {
            throw new IllegalArgumentException(
                    "pool.local_admin: expected false with pool.admin_key_file, whose keys are those of the admins");
        }
        Set<String> names = new HashSet<>();
        models.stream()
                .flatMap(model -> Stream.concat(Stream.of(model.name()), model.adapters().keySet().stream()))
                .filter(name -> !names.add(name))
                .findFirst()
                .ifPresent(name -> {
                    throw new IllegalArgumentException(
                            "models: " + name + " is defined twice, as a model or an adapter");
                });
    }

    /** The defaults. */
    public static PoolConfig empty(Path state) {
        return new PoolConfig(
                "pool",
                state,
                LISTEN,
                Optional.empty(),
                Optional.empty(),
                false,
                RestartPolicy.DEFAULT,
                List.of(),
                List.of());
    }

    public Optional<ModelEntry> model(String name) {
        return models.stream().filter(model -> model.name().equals(name)).findFirst();
    }

    public PoolConfig withListen(String address) {
        return new PoolConfig(id, state, address, apiKeyFile, adminKeyFile, localAdmin, restart, models, workers);
    }
}
