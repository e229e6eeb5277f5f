package dev.starforge.serve.pool.worker;

import java.io.IOException;
import java.net.URI;

/** The pool's own requests to a worker; every call has a timeout of seconds. */
public interface WorkerClient {
    WorkerHealth health(URI worker) throws IOException, InterruptedException;

    /** Generates a token, to detect a worker whose engine has stopped although it reports being healthy. */
    void canary(URI worker, String key) throws IOException, InterruptedException;

    void shutdown(URI worker, String key) throws IOException, InterruptedException;
}
