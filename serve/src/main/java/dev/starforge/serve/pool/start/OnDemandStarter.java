package dev.starforge.serve.pool.start;

import dev.starforge.serve.pool.config.ModelEntry;
import dev.starforge.serve.pool.config.PoolConfig;
import dev.starforge.serve.pool.supervise.Supervisor;
import dev.starforge.serve.pool.supervise.WorkerCandidate;
import dev.starforge.serve.pool.supervise.WorkerLease;
import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.PoolTimeouts;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/** Leases a worker for a request, and starts one if necessary: one for a model, however many requests and starts name it at once. */
public final class OnDemandStarter {
    private final PoolConfig config;
    private final Supervisor supervisor;
    private final WorkerStarter starter;
    private final PoolTimeouts timing;
    private final Map<String, CompletableFuture<Void>> starts = new ConcurrentHashMap<>();

    public OnDemandStarter(PoolConfig config, Supervisor supervisor, WorkerStarter starter, PoolTimeouts timing) {
        this.config = config;
        this.supervisor = supervisor;
        this.starter = starter;
        this.timing = timing;
    }

    /** The model of a request: the one it names, or the only one. */
    public String model(String named) {
        if (!named.isEmpty()) {
            return named;
        }
        List<String> known = config.models().isEmpty()
                ? supervisor.views().stream()
                        .filter(view -> view.state() != WorkerState.STOPPED)
                        .map(WorkerView::model)
                        .filter(model -> !model.isEmpty())
                        .distinct()
                        .toList()
                : config.models().stream().map(ModelEntry::name).toList();
        if (known.size() != 1) {
            throw new PoolException(
                    PoolError.MODEL_NOT_FOUND, false, "model: expected the name of one of " + known + ", got none");
        }
        return known.getFirst();
    }

    /** Leases a ready worker; waits for it up to the request timeout. */
    public WorkerLease lease(
            String model, Set<String> excluded, Function<List<WorkerCandidate>, WorkerCandidate> choose)
            throws InterruptedException {
        long deadline = System.nanoTime() + timing.request().toNanos();
        while (true) {
            Optional<WorkerLease> lease = supervisor.acquire(model, excluded, choose);
            if (lease.isPresent()) {
                return lease.get();
            }
            if (!supervisor.isExpected(model, excluded)) {
                start(model);
            }
            long left = deadline - System.nanoTime();
            if (left <= 0) {
                throw new PoolException(
                        PoolError.WORKER_START_TIMEOUT,
                        true,
                        model + ": no worker was ready within "
                                + timing.request().toSeconds() + " s");
            }
            supervisor.await(Duration.ofNanos(Math.min(left, 1_000_000_000)));
        }
    }

    /** Returns true if a worker that is not excluded is ready. */
    public boolean hasOther(String model, Set<String> excluded) {
        return supervisor.hasOther(model, excluded);
    }

    /** Starts a worker for a model or adapter of the config, unless one is expected. */
    public void start(String model) throws InterruptedException {
        Optional<ModelEntry> configured = config.models().stream()
                .filter(each -> each.name().equals(model) || each.adapters().containsKey(model))
                .findFirst();
        if (configured.isEmpty()) {
            supervisor.rejectUnreachable(model);
        }
        ModelEntry entry = configured.orElseThrow(() -> new PoolException(
                PoolError.MODEL_NOT_FOUND, false, model + ": no such model; GET /v1/models lists them"));
        CompletableFuture<Void> mine = new CompletableFuture<>();
        CompletableFuture<Void> first = starts.putIfAbsent(entry.name(), mine);
        if (first != null) {
            try {
                first.join();
            } catch (CompletionException failed) {
                throw failed.getCause() instanceof PoolException failure ? failure : failed;
            }
            return;
        }
        try {
            if (!supervisor.isExpected(model, Set.of())) { // another start may have ended since the caller looked
                starter.start(new WorkerStarter.StartRequest(entry.name(), "", Map.of(), Optional.empty()));
            }
            mine.complete(null);
        } catch (RuntimeException | InterruptedException failure) {
            mine.completeExceptionally(failure);
            throw failure;
        } finally {
            starts.remove(entry.name());
        }
    }
}
