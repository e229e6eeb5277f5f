package dev.starforge.serve.pool;

import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.log.EventLog.LogLevel;
import java.util.function.IntConsumer;

/**
 * A thread that the process is useless without: a pool whose thread has died, say of a full heap, looks alive and restarts nothing. If it
 * ends with an error, so does the process; the next pool adopts the workers.
 */
final class EssentialThread {
    /** Exit code of a process that lost an essential thread. */
    static final int FAILED = 1;

    private EssentialThread() {}

    /** @param exit ends the process at once, with an exit code */
    static void start(String name, Runnable work, EventLog log, IntConsumer exit) {
        Thread.ofPlatform()
                .name(name)
                .daemon()
                .uncaughtExceptionHandler((_, failure) -> {
                    try {
                        log.line(LogLevel.ERROR, "pool", "thread", name)
                                .with("error_kind", failure.getClass().getSimpleName())
                                .log("thread " + name + " died: " + failure + "; the process ends");
                    } finally {
                        exit.accept(FAILED);
                    }
                })
                .start(work);
    }
}
