package dev.starforge.serve.pool.worker;

import dev.starforge.serve.api.StartSecret;
import java.net.URI;
import java.util.Optional;

/**
 * How the pool reaches a worker.
 *
 * @param key the pool's key for this worker; empty if it needs none. Clients' own keys are never sent to a worker
 * @param secret of a worker that the pool started: it proves its identity on each connection before the pool sends anything else
 */
public record WorkerEndpoint(URI uri, String key, Optional<StartSecret> secret) {
    /** A worker that the pool started. */
    public static WorkerEndpoint managed(URI uri, StartSecret secret) {
        return new WorkerEndpoint(uri, secret.requestKey(), Optional.of(secret));
    }

    /** A worker that was started elsewhere. */
    public static WorkerEndpoint registered(URI uri, String key) {
        return new WorkerEndpoint(uri, key, Optional.empty());
    }

    /** Without the key. */
    @Override
    public String toString() {
        return uri.toString();
    }
}
