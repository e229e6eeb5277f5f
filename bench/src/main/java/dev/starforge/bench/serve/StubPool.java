package dev.starforge.bench.serve;

import dev.starforge.serve.pool.Pool;
import dev.starforge.serve.pool.PoolFixture;
import dev.starforge.serve.pool.config.ModelEntry;
import dev.starforge.serve.pool.config.PoolConfig;
import dev.starforge.serve.pool.config.RestartPolicy;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A pool of stub workers as a process that can be killed: {@code StubPool STATE LISTEN MODEL}. It prints its address and runs until its
 * input ends.
 */
final class StubPool {
    private StubPool() {}

    public static void main(String[] args) throws Exception {
        RestartPolicy restarts = new RestartPolicy(
                Duration.ofSeconds(1), Duration.ofSeconds(60), Duration.ofSeconds(5), 5, Duration.ofSeconds(300));
        ModelEntry model = new ModelEntry("soak", Path.of(args[2]), "", Map.of(), false, Optional.empty());
        PoolConfig config = new PoolConfig(
                "soak",
                Path.of(args[0]),
                args[1],
                Optional.empty(),
                Optional.empty(),
                false,
                restarts,
                List.of(model),
                List.of());
        try (Pool pool = PoolFixture.startWithStubs(config)) {
            System.out.println(pool.uri());
            while (System.in.read() >= 0) {
                // runs until the parent closes the input
            }
            pool.drain();
        }
    }
}
