package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.worker.WorkerEndpoint;
import java.util.ArrayList;
import java.util.List;

/** A request's use of a worker: counts as load until closed, and runs its callbacks if the worker fails. */
public final class WorkerLease implements AutoCloseable {
    private final Supervisor supervisor;
    private final PoolWorker worker;
    private final WorkerEndpoint endpoint;
    private final String incarnation;
    private final List<Runnable> onLost = new ArrayList<>();
    private final long begun;
    private boolean markLost;

    WorkerLease(Supervisor supervisor, PoolWorker worker, WorkerEndpoint endpoint) {
        this.supervisor = supervisor;
        this.worker = worker;
        this.endpoint = endpoint;
        this.incarnation = worker.incarnation();
        this.begun = worker.now();
    }

    public String workerId() {
        return worker.id();
    }

    public WorkerEndpoint endpoint() {
        return endpoint;
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

    /** Reports an error of the worker, or a response that ended early: the worker is checked soon. */
    public void reportFailure() {
        supervisor.reported(this, PoolWorker::suspect);
    }

    /** Reports a request without a response; after some in a row, the worker has failed. */
    public void reportUnanswered(String why) {
        supervisor.reported(this, failing -> failing.unanswered(begun, why));
    }

    /** Reports a response. */
    public void reportResponse() {
        supervisor.reported(this, PoolWorker::answered);
    }

    /** Idempotent. */
    @Override
    public void close() {
        supervisor.release(this);
    }
}
