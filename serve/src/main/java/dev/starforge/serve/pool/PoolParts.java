package dev.starforge.serve.pool;

import dev.starforge.serve.pool.api.Registry;
import dev.starforge.serve.pool.process.Commands;
import dev.starforge.serve.pool.process.Launcher;
import dev.starforge.serve.pool.process.SystemLauncher;
import dev.starforge.serve.pool.supervise.Timing;
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
record PoolParts(
        List<String> program,
        Launcher launcher,
        Commands commands,
        Registry.Resolver resolver,
        Timing timing,
        LongSupplier nanos,
        Clock clock,
        RandomGenerator random) {
    PoolParts {
        program = List.copyOf(program);
    }

    /** Those of a real machine. */
    static PoolParts ofSystem(List<String> program) {
        return new PoolParts(
                program,
                new SystemLauncher(),
                Commands.ofSystem(),
                Registry.Resolver.ofSystem(),
                Timing.DEFAULT,
                System::nanoTime,
                Clock.systemUTC(),
                new SecureRandom());
    }

    PoolParts withTiming(Timing value) {
        return new PoolParts(program, launcher, commands, resolver, value, nanos, clock, random);
    }

    PoolParts withCommands(Commands value) {
        return new PoolParts(program, launcher, value, resolver, timing, nanos, clock, random);
    }
}
