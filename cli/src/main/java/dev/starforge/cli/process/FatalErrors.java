package dev.starforge.cli.process;

import dev.starforge.serve.http.EssentialThread;
import java.io.PrintWriter;
import java.lang.Thread.UncaughtExceptionHandler;
import java.util.function.IntConsumer;

/**
 * Ends the process of a server that cannot make progress: when the Java heap is full, or a thread that it cannot work without has died.
 * A process that stays alive without serving would never be restarted.
 */
public final class FatalErrors implements UncaughtExceptionHandler {
    /** The exit code of a server that is out of memory. */
    public static final int OUT_OF_MEMORY = 5;

    private final PrintWriter err;
    private final IntConsumer exit;

    FatalErrors(PrintWriter err, IntConsumer exit) {
        this.err = err;
        this.exit = exit;
    }

    /** Handles uncaught exceptions of all threads from now on, and watches the heap. */
    public static void install(PrintWriter err) {
        FatalErrors handler = new FatalErrors(err, Runtime.getRuntime()::halt);
        Thread.setDefaultUncaughtExceptionHandler(handler);
        HeapWatch.start();
    }

    @Override
    public void uncaughtException(Thread thread, Throwable failure) {
        Throwable cause = failure instanceof EssentialThread.DiedException died && died.getCause() != null
                ? died.getCause()
                : failure;
        if (cause instanceof OutOfMemoryError) {
            end(
                    OUT_OF_MEMORY,
                    "out of Java heap memory (%d MB); increase it with STARFORGE_JAVA_OPTS=-Xmx4g"
                            .formatted(Runtime.getRuntime().maxMemory() >> 20));
        } else if (failure instanceof EssentialThread.DiedException) {
            cause.printStackTrace(err);
            end(ExitCode.FAILED, String.valueOf(failure.getMessage()));
        } else {
            err.println("starforge: internal error in thread \"" + thread.getName() + "\"");
            failure.printStackTrace(err);
            err.flush();
        }
    }

    private void end(int code, String message) {
        try {
            err.println("starforge: " + message);
            err.flush();
        } finally {
            exit.accept(code);
        }
    }
}
