package dev.starforge.serve.pool.supervise;

import java.io.IOException;
import java.net.URI;

/** What the pool asks a worker for itself; every call ends within seconds. */
public interface WorkerClient {
    WorkerHealth health(URI worker) throws IOException, InterruptedException;

    /** A real token: a worker whose engine is dead may still say that it is well. */
    void canary(URI worker, String key) throws IOException, InterruptedException;

    void shutdown(URI worker, String key) throws IOException, InterruptedException;
}
