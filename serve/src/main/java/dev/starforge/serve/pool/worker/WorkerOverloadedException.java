package dev.starforge.serve.pool.worker;

import java.io.IOException;

/** The worker answered that it has reached a limit of its own: it is alive, and killing it would not help. */
public final class WorkerOverloadedException extends IOException {
    private static final long serialVersionUID = 1;

    public WorkerOverloadedException(String message) {
        super(message);
    }
}
