package dev.starforge.serve.pool.supervise;

import java.net.URI;
import java.util.ArrayList;
import java.util.List;

/** A request's hold on a worker: it is counted as load until it is closed, and told when the worker is lost. */
public final class WorkerLease implements AutoCloseable {
    private final Supervisor supervisor;
    private final PoolWorker worker;
    private final URI uri;
    private final String incarnation;
    private final List<Runnable> whenCut = new ArrayList<>();
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

    /** The key that this worker is asked with; empty where clients' own keys go on. */
    public String key() {
        return worker.key();
    }

    /** Of all starts of all workers this one. */
    public String incarnation() {
        return incarnation;
    }

    /** The worker gave a sign of life. */
    public void touch() {
        worker.touch();
    }

    /** Runs once when the worker is lost; at once if it is. */
    public void onLost(Runnable action) {
        synchronized (whenCut) {
            if (!markLost) {
                whenCut.add(action);
                return;
            }
        }
        action.run();
    }

    void markLost() {
        List<Runnable> actions;
        synchronized (whenCut) {
            markLost = true;
            actions = List.copyOf(whenCut);
            whenCut.clear();
        }
        actions.forEach(Runnable::run);
    }

    PoolWorker worker() {
        return worker;
    }

    /** The worker did not answer as it should: it is looked at now, not at the next check. */
    public void reportFailure() {
        supervisor.suspect(this);
    }

    /** May be called again. */
    @Override
    public void close() {
        supervisor.release(this);
    }
}
