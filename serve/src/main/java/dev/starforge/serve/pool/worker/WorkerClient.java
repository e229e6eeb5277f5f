package dev.starforge.serve.pool.worker;

import java.io.IOException;

/** The pool's own requests to a worker; every call ends within seconds. */
public interface WorkerClient {
    /** @throws WorkerOverloadedException if the worker has reached a limit of its own */
    WorkerHealth health(WorkerEndpoint worker) throws IOException, InterruptedException;

    /**
     * Generates a token, to detect a worker whose engine has stopped although it reports being healthy.
     *
     * @throws WorkerOverloadedException if the worker has reached a limit of its own
     */
    void canary(WorkerEndpoint worker) throws IOException, InterruptedException;

    void shutdown(WorkerEndpoint worker) throws IOException, InterruptedException;
}
