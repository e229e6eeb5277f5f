package dev.starforge.serve.pool.worker;

import java.io.IOException;

/** The worker answered that it has reached a limit of its own. Killing it would not help as long as it generates tokens. */
public final class WorkerOverloadedException extends IOException {
    private static final long serialVersionUID = 1;

    public WorkerOverloadedException(String message) {
        super(message);
    }
}
