package dev.starforge.serve.pool;

import dev.starforge.serve.pool.api.WorkerRegistry;
import dev.starforge.serve.pool.process.CommandRunner;
import dev.starforge.serve.pool.process.ProcessLauncher;
import dev.starforge.serve.pool.process.SystemLauncher;
import dev.starforge.serve.pool.worker.PoolTimeouts;
import java.security.SecureRandom;
import java.time.Clock;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;

/**
 * The dependencies of a pool, replaceable in tests.
 *
 * @param program the command line that starts this program, without a command; used to start workers
 * @param random for ids and secrets; must be thread-safe and unpredictable, such as {@link SecureRandom}
 */
record PoolDependencies(
        List<String> program,
        ProcessLauncher launcher,
        CommandRunner commands,
        WorkerRegistry.HostResolver resolver,
        PoolTimeouts timing,
        LongSupplier nanos,
        Clock clock,
        RandomGenerator random) {
    PoolDependencies {
        program = List.copyOf(program);
    }

    /** The dependencies of the system. */
    static PoolDependencies ofSystem(List<String> program) {
        return new PoolDependencies(
                program,
                new SystemLauncher(),
                CommandRunner.ofSystem(),
                WorkerRegistry.HostResolver.ofSystem(),
                PoolTimeouts.DEFAULT,
                System::nanoTime,
                Clock.systemUTC(),
                new SecureRandom());
    }

    PoolDependencies withTiming(PoolTimeouts value) {
        return new PoolDependencies(program, launcher, commands, resolver, value, nanos, clock, random);
    }

    PoolDependencies withCommands(CommandRunner value) {
        return new PoolDependencies(program, launcher, value, resolver, timing, nanos, clock, random);
    }
}
