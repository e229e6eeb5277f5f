package dev.starforge.cli.process;

import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;

/**
 * Ctrl-C and the like while a command has something to bring in order. The program ends when this is closed: until then the
 * work is asked to stop, or, before it can be asked, its thread is interrupted, so that what it reads or writes ends.
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
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    /** From now on a signal asks for this; one that has come already does so at once. */
    public synchronized void onSignal(Runnable action) {
        stop = action;
        if (came) {
            Thread.interrupted();
            action.run();
        }
    }

    /** Whether a signal came before there was anything to ask. */
    public synchronized boolean cameEarly() {
        return cameEarly && stop == null;
    }

    @Override
    public void close() {
        over.countDown();
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException ending) {
            return; // the hook is running, and stays
        }
    }
}
