package dev.starforge.serve.pool;

import dev.starforge.serve.pool.api.WorkerRegistry;
import dev.starforge.serve.pool.process.CommandRunner;
import dev.starforge.serve.pool.process.ProcessLauncher;
import dev.starforge.serve.pool.process.SystemLauncher;
import dev.starforge.serve.pool.supervise.PoolTimeouts;
import java.security.SecureRandom;
import java.time.Clock;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;

/**
 * What a pool is made of besides its config.
 *
 * @param program how this program is started, without a verb: workers are it
 * @param random for ids; used by many threads, as {@link SecureRandom} allows
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

    /** Those of a real machine. */
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
