package dev.starforge.serve.pool;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.log.EventLog;
import java.nio.file.Path;
import java.time.Clock;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A process that cannot do its work ends, so that another one can be started. */
final class EssentialThreadTest {
    @TempDir
    private Path folder;

    @Test
    void theDeathOfAThreadIsLoggedAndEndsTheProcess() throws Exception {
        List<String> lines = new ArrayList<>();
        EventLog log = new EventLog(
                lines::add, EventLog.LogFormat.JSON, EventLog.LogLevel.INFO, Clock.systemUTC(), List.of(), Map.of());
        CompletableFuture<Integer> exit = new CompletableFuture<>();
        EssentialThread.start(
                "worker bee",
                () -> {
                    throw new OutOfMemoryError("Java heap space");
                },
                log,
                exit::complete);
        assertThat(exit.get(10, TimeUnit.SECONDS)).isEqualTo(1);
        assertThat(lines).singleElement().asString().contains("worker bee", "Java heap space");
    }

    @Test
    void aPoolThatCannotSuperviseEndsTheProcess() throws Exception {
        AtomicBoolean full = new AtomicBoolean();
        LongSupplier nanos = () -> {
            if (full.get()) {
                throw new OutOfMemoryError("Java heap space");
            }
            return System.nanoTime();
        };
        CompletableFuture<Integer> exit = new CompletableFuture<>();
        PoolFixture fixture = new PoolFixture(folder);
        PoolDependencies usual = PoolFixture.parts(PoolFixture.QUICK);
        PoolDependencies parts = new PoolDependencies(
                usual.program(),
                usual.launcher(),
                usual.commands(),
                usual.resolver(),
                usual.timing(),
                nanos,
                usual.clock(),
                usual.random(),
                exit::complete);
        try (Pool pool = Pool.start(fixture.config("127.0.0.1:0"), parts, PoolKeys.NONE, EventLog.silent())) {
            assertThat(pool.uri()).isNotNull();
            full.set(true);
            assertThat(exit.get(10, TimeUnit.SECONDS)).isEqualTo(EssentialThread.FAILED);
        }
    }
}
