package dev.starforge.serve.pool.supervise;

import java.net.URI;
import java.util.ArrayList;
import java.util.List;

/** A request's use of a worker: counts as load until closed, and runs its callbacks if the worker fails. */
public final class WorkerLease implements AutoCloseable {
    private final Supervisor supervisor;
    private final PoolWorker worker;
    private final URI uri;
    private final String incarnation;
    private final List<Runnable> onLost = new ArrayList<>();
    private boolean markLost;

    WorkerLease(Supervisor supervisor, PoolWorker worker, URI uri) {
        this.supervisor = supervisor;
        this.worker = worker;
        this.uri = uri;
        this.incarnation = worker.incarnation();
    }

    public String workerId() {
        return worker.id();
    }

    public URI uri() {
        return uri;
    }

    /** The API key for this worker; empty if the client's key is passed through. */
    public String key() {
        return worker.key();
    }

    /** Identifies one start of the worker. */
    public String incarnation() {
        return incarnation;
    }

    /** Records that the worker has sent data. */
    public void touch() {
        worker.touch();
    }

    /** Runs {@code action} once if the worker fails; at once if it has failed. */
    public void onLost(Runnable action) {
        synchronized (onLost) {
            if (!markLost) {
                onLost.add(action);
                return;
            }
        }
        action.run();
    }

    void markLost() {
        List<Runnable> actions;
        synchronized (onLost) {
            markLost = true;
            actions = List.copyOf(onLost);
            onLost.clear();
        }
        actions.forEach(Runnable::run);
    }

    PoolWorker worker() {
        return worker;
    }

    /** Reports a failed request: the worker is checked now. */
    public void reportFailure() {
        supervisor.suspect(this);
    }

    /** Idempotent. */
    @Override
    public void close() {
        supervisor.release(this);
    }
}
