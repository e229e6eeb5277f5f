package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.config.RestartPolicy;
import dev.starforge.serve.pool.process.ProcessLauncher;
import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.serve.pool.worker.PoolTimeouts;
import dev.starforge.serve.pool.worker.WorkerClient;
import dev.starforge.serve.pool.worker.WorkerCommand;
import java.nio.file.Path;
import java.time.Clock;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;

/**
 * The dependencies of the supervisor; replaceable in tests.
 *
 * @param state folder of the worker journal and the workers' logs
 * @param nanos monotonic time, for durations
 * @param clock wall clock, for timestamps
 * @param checks runs requests to workers, which may block
 * @param listener receives events; must not block
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
