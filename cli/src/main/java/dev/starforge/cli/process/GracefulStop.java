package dev.starforge.cli.process;

import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;

/**
 * Stops a command on a signal such as Ctrl-C and delays the exit until {@link #close}. On a signal it runs the stop action; before
 * one is set, it interrupts the thread of the command.
 */
public final class GracefulStop implements AutoCloseable {
    private final CountDownLatch over = new CountDownLatch(1);
    private final Thread worker = Thread.currentThread();
    private final Thread hook = Thread.ofPlatform().unstarted(this::signalled);
    private @Nullable Runnable stop;
    private boolean came;
    private boolean cameEarly;

    public GracefulStop() {
        Runtime.getRuntime().addShutdownHook(hook);
    }

    private void signalled() {
        synchronized (this) {
            came = true;
            if (stop == null) {
                cameEarly = true;
                worker.interrupt();
            } else {
                stop.run();
            }
        }
        try {
            over.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Sets the stop action, and runs it at once if a signal was already received. */
    public synchronized void onSignal(Runnable action) {
        stop = action;
        if (came) {
            Thread.interrupted();
            action.run();
        }
    }

    /** Returns true if a signal was received before a stop action was set. */
    public synchronized boolean cameEarly() {
        return cameEarly && stop == null;
    }

    @Override
    public void close() {
        over.countDown();
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException ending) {
            return; // the JVM is shutting down
        }
    }
}
