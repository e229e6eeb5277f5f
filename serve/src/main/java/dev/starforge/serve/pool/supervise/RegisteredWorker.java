package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.serve.pool.worker.WorkerEndpoint;
import dev.starforge.serve.pool.worker.WorkerFailure;
import dev.starforge.serve.pool.worker.WorkerHealth;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import java.util.List;
import java.util.Optional;

/** A worker that the pool did not start: health-checked and used, never signalled or restarted. */
final class RegisteredWorker extends PoolWorker {
    private final WorkerEndpoint endpoint;
    private int returns;

    RegisteredWorker(String id, Supervisor supervisor, SupervisorContext context, WorkerEndpoint endpoint) {
        super(id, supervisor, context);
        this.endpoint = endpoint;
    }

    @Override
    String incarnation() {
        return id() + "/" + returns;
    }

    @Override
    Optional<WorkerEndpoint> endpoint() {
        return Optional.of(endpoint);
    }

    /** It was not seen to work yet, and the pool may have the wrong key. */
    @Override
    boolean isUnproven() {
        return state() != WorkerState.DRAINING;
    }

    @Override
    void tick() {
        check(endpoint);
    }

    @Override
    void healthy(WorkerHealth good) {
        if (state() != WorkerState.READY && state() != WorkerState.DRAINING) {
            transition(WorkerState.READY, PoolEvent.PoolEventKind.READY, "serving " + good.model());
        }
    }

    @Override
    void unhealthy(String why) {
        setReason(why);
        if (state() != WorkerState.FAILED) {
            transition(WorkerState.FAILED, PoolEvent.PoolEventKind.UNREACHABLE, why);
            returns++;
            failLeases();
        }
    }

    @Override
    boolean serves(String model) {
        return health().filter(reported -> reported.serves(model)).isPresent();
    }

    @Override
    boolean isExpected() {
        return state() == WorkerState.STARTING || state() == WorkerState.READY;
    }

    void drain() {
        transition(WorkerState.DRAINING, PoolEvent.PoolEventKind.DRAINING, "draining");
    }

    private String advice() {
        return state() == WorkerState.FAILED
                ? "The pool uses it again after a successful health check; check the worker on its host."
                : "";
    }

    @Override
    WorkerView view() {
        return new WorkerView(
                id(),
                false,
                health().map(WorkerHealth::model).orElse(""),
                health().map(WorkerHealth::names).orElse(List.of()),
                health().map(WorkerHealth::device).orElse(""),
                shownState(),
                0,
                health().map(WorkerHealth::memory).orElse(0L),
                endpoint.uri().toString(),
                Optional.empty(),
                0,
                new WorkerFailure("", reason(), failedAt(), -1, advice()),
                load(),
                health().map(WorkerHealth::capabilities).orElse(List.of()),
                health().map(WorkerHealth::adapters).orElse(List.of()));
    }
}
