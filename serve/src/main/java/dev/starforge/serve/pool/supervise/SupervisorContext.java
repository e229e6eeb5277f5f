package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.config.RestartPolicy;
import dev.starforge.serve.pool.process.ProcessLauncher;
import java.nio.file.Path;
import java.time.Clock;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;

/**
 * What supervision needs of the world; all of it can be played in a test.
 *
 * @param state the folder of the journal and of workers' logs
 * @param nanos for durations: unlike the clock it never jumps
 * @param clock for what people read
 * @param checks runs what asks workers, which may wait
 * @param listener hears what happens; must not wait
 */
public record SupervisorContext(
        Path state,
        ProcessLauncher launcher,
        WorkerClient client,
        WorkerCommand command,
        PoolTimeouts timing,
        RestartPolicy policy,
        LongSupplier nanos,
        Clock clock,
        RandomGenerator random,
        Executor checks,
        Consumer<PoolEvent> listener) {}
