package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.WorkerFailure;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Whether it is worth waiting for the workers of a model, and what to tell clients if it is not. */
final class Availability {
    private Availability() {}

    /**
     * Returns true if a worker can become ready for a request. Fails if there is one that cannot be started, or that is healthy but did
     * not respond to the request.
     *
     * @param excluded incarnations that have failed the request
     */
    static boolean isExpected(String model, List<PoolWorker> workers, Set<String> excluded) {
        List<PoolWorker> serving = workers.stream()
                .filter(worker -> worker.serves(model) && worker.state() != WorkerState.STOPPED)
                .filter(worker -> !(worker instanceof ManagedWorker own && own.mayBeReplaced()))
                .toList();
        List<PoolWorker> unresponsive = serving.stream()
                .filter(worker -> worker.state() == WorkerState.READY
                        && excluded.contains(worker.incarnation())
                        && !worker.isSuspected())
                .toList();
        if (serving.stream().filter(worker -> !unresponsive.contains(worker)).anyMatch(PoolWorker::isExpected)) {
            return true;
        }
        serving.stream()
                .map(PoolWorker::view)
                .filter(view -> view.own() && view.state() == WorkerState.FAILED)
                .reduce((_, last) -> last)
                .ifPresent(failed -> {
                    throw cannotStart(model, failed);
                });
        if (!unresponsive.isEmpty()) {
            throw lost(model, unresponsive.getFirst(), "did not respond to this request");
        }
        return false;
    }

    /** Fails if a worker of the model has failed and may come back by itself. */
    static void rejectUnreachable(String model, List<PoolWorker> workers) {
        workers.stream()
                .filter(worker -> worker.state() == WorkerState.FAILED && worker.serves(model))
                .findFirst()
                .ifPresent(worker -> {
                    throw lost(model, worker, "cannot be used: " + worker.reason());
                });
    }

    private static PoolException lost(String model, PoolWorker worker, String why) {
        return new PoolException(
                PoolError.WORKER_LOST, true, model + ": its worker " + worker.id() + " " + why + "; there is no other");
    }

    /** The error with reason, time and advice. */
    private static PoolException cannotStart(String model, WorkerView view) {
        WorkerFailure failure = view.failure();
        long seconds = Math.max(1L, (long) Math.ceil(failure.restartSeconds()));
        String since = failure.since().map(Instant::toString).orElse("");
        return new PoolException(
                PoolError.WORKER_START_FAILED,
                failure.isRetried(),
                model + ": its worker " + view.id() + " cannot be started, since " + since + ": " + failure.reason()
                        + ". "
                        + (failure.isRetried() ? "The next attempt is in " + seconds + " s." : failure.advice()),
                failure.isRetried()
                        ? Map.of("worker_id", view.id(), "since", since, "retry_after_s", seconds)
                        : Map.of("worker_id", view.id(), "since", since));
    }
}
