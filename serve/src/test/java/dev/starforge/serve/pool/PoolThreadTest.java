package dev.starforge.serve.pool;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.http.EssentialThread;
import dev.starforge.serve.log.EventLog;
import java.lang.Thread.UncaughtExceptionHandler;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class PoolThreadTest {
    @TempDir
    private Path folder;

    /** The default handler ends the process, so that another pool can be started, which adopts the workers. */
    @Test
    void theDeathOfTheThreadThatSupervisesReachesTheDefaultHandler() throws Exception {
        AtomicBoolean full = new AtomicBoolean();
        LongSupplier nanos = () -> {
            if (full.get()) {
                throw new OutOfMemoryError("Java heap space");
            }
            return System.nanoTime();
        };
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
                usual.random());
        CompletableFuture<Throwable> death = new CompletableFuture<>();
        UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((_, failure) -> death.complete(failure));
        try (Pool pool = Pool.start(fixture.config("127.0.0.1:0"), parts, PoolKeys.NONE, EventLog.silent())) {
            assertThat(pool.uri()).isNotNull();
            full.set(true);
            assertThat(death.get(10, TimeUnit.SECONDS))
                    .isInstanceOf(EssentialThread.DiedException.class)
                    .hasMessageContaining("pool tick");
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
    }
}
