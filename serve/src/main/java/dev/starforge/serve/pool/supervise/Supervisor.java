package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.WorkerFailure;
import dev.starforge.serve.pool.worker.WorkerSpec;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import dev.starforge.text.FileException;
import dev.starforge.text.file.FolderLock;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Supervises all workers of a pool. One lock guards them; requests to workers run outside the lock. Time and threads are injected: the
 * pool calls {@link #tick} periodically, so that tests can simulate time.
 */
public final class Supervisor implements AutoCloseable {
    private static final int STOPPED_SHOWN = 20;

    private final SupervisorContext context;
    private final WorkerJournal journal;
    private final FolderLock lock;
    private final RestartBudget budget = new RestartBudget();
    private final Map<String, PoolWorker> workers = new LinkedHashMap<>();
    private boolean draining;

    /** Locks the state folder; only one pool can use it. */
    public Supervisor(SupervisorContext context) throws IOException {
        this.context = context;
        Files.createDirectories(context.state().resolve(WorkerLogs.FOLDER));
        try {
            lock = FolderLock.take(context.state(), "starforge pool");
        } catch (FileException taken) {
            throw new IOException("pool: its state folder " + taken.getMessage(), taken);
        }
        journal = new WorkerJournal(context.state().resolve("workers"));
    }

    /** Adopts the workers of the previous pool with this state folder. */
    public synchronized void adopt() throws IOException {
        for (WorkerJournal.JournalEntry entry : journal.read()) {
            ManagedWorker worker = own(entry.id(), entry.spec(), Optional.empty());
            workers.put(worker.id(), worker);
            worker.adopt(entry, context.launcher().find(entry.pid(), entry.identity()));
        }
    }

    private ManagedWorker own(String id, WorkerSpec spec, Optional<ManagedWorker> replaces) {
        return new ManagedWorker(id, this, context, spec, journal, budget, replaces);
    }

    /** Starts a worker and reserves its memory; returns its id. */
    public synchronized String start(WorkerSpec spec, Optional<String> replaces) {
        rejectWhenDraining();
        String id = "w-" + HexFormat.of().toHexDigits(context.random().nextInt());
        ManagedWorker worker = own(id, spec, replaces.map(this::requireOwn));
        try {
            worker.spawn();
        } catch (IOException failure) {
            try {
                journal.remove(id);
            } catch (IOException stays) {
                failure.addSuppressed(stays);
            }
            throw new PoolException(PoolError.WORKER_START_FAILED, true, "start: " + failure.getMessage());
        }
        workers.put(id, worker);
        changed();
        return id;
    }

    /** Registers a worker that the pool did not start; returns its id. The same address is the same worker. */
    public synchronized String register(URI uri, String key) {
        rejectWhenDraining();
        String id = "r-" + uri.getHost() + "-" + uri.getPort();
        if (!workers.containsKey(id)) {
            workers.put(id, new RegisteredWorker(id, this, context, uri, key));
            context.listener()
                    .accept(new PoolEvent(PoolEvent.PoolEventKind.REGISTERED, id, WorkerState.STARTING, "at " + uri));
        }
        return id;
    }

    /** Removes a registered worker. */
    public synchronized void unregister(String id) {
        if (workers.get(id) instanceof RegisteredWorker worker) {
            workers.remove(id);
            worker.drain();
        }
    }

    private void rejectWhenDraining() {
        if (draining) {
            throw new PoolException(PoolError.POOL_DRAINING, true, "the pool is shutting down");
        }
    }

    private ManagedWorker requireOwn(String id) {
        return switch (require(id)) {
            case ManagedWorker own -> own;
            case RegisteredWorker _ ->
                throw new PoolException(
                        PoolError.WORKER_NOT_FOUND, false, id + ": is a registered worker; stop it on its host");
        };
    }

    private PoolWorker require(String id) {
        PoolWorker worker = workers.get(id);
        if (worker == null) {
            throw new PoolException(PoolError.WORKER_NOT_FOUND, false, id + ": no such worker");
        }
        return worker;
    }

    /** The settings of a worker, for a replacement. */
    public synchronized WorkerSpec spec(String id) {
        return requireOwn(id).spec();
    }

    public synchronized void calledBack(String id, String start, URI uri) {
        try {
            requireOwn(id).calledBack(start, uri);
        } catch (IOException unrecorded) {
            throw new PoolException(
                    PoolError.WORKER_START_FAILED,
                    true,
                    "ready: the journal cannot be written: " + unrecorded.getMessage());
        }
    }

    public synchronized void drain(String id) {
        switch (require(id)) {
            case ManagedWorker own -> own.drain();
            case RegisteredWorker registered -> registered.drain();
        }
    }

    public synchronized void stop(String id) {
        requireOwn(id).stop();
    }

    /** Advances the state of every worker; called about ten times per second. */
    public synchronized void tick() {
        List.copyOf(workers.values()).forEach(PoolWorker::tick);
        List<ManagedWorker> over = own().filter(ManagedWorker::isTerminal).toList();
        over.stream().limit(Math.max(0, over.size() - STOPPED_SHOWN)).forEach(worker -> workers.remove(worker.id()));
    }

    synchronized void locked(Runnable work) {
        work.run();
    }

    /** Wakes threads in {@link #await}. */
    synchronized void changed() {
        notifyAll();
    }

    private Stream<ManagedWorker> own() {
        return workers.values().stream().filter(ManagedWorker.class::isInstance).map(ManagedWorker.class::cast);
    }

    public synchronized List<WorkerView> views() {
        return workers.values().stream().map(PoolWorker::view).toList();
    }

    /** Memory of a device that is reserved for workers. */
    public synchronized long allocated(String device) {
        return held(device).mapToLong(ManagedWorker::reservedBytes).sum();
    }

    /** The part of it that is not allocated yet, so that the system counts it as free. */
    public synchronized long loading(String device) {
        return held(device)
                .filter(ManagedWorker::isLoading)
                .mapToLong(ManagedWorker::reservedBytes)
                .sum();
    }

    /** Returns true if a worker still holds memory. */
    public synchronized boolean holds(String id) {
        return workers.get(id) instanceof ManagedWorker worker && worker.reservedBytes() > 0;
    }

    private Stream<ManagedWorker> held(String device) {
        return own().filter(worker -> worker.spec().device().equals(device));
    }

    /** Stops the worker of one of the models that has been idle longest; returns its id. */
    public synchronized Optional<String> stopIdlest(String device, Set<String> models) {
        return idle().filter(worker -> worker.spec().device().equals(device))
                .filter(worker -> models.contains(worker.spec().model()))
                .min((a, b) -> Long.compare(a.usedAt() - b.usedAt(), 0))
                .map(worker -> {
                    worker.stop();
                    return worker.id();
                });
    }

    /** Returns true if a worker may be idle although its last check reported requests; such workers are checked now. */
    public synchronized boolean mayBeIdle(String device, Set<String> models) {
        List<ManagedWorker> asked = own().filter(
                        worker -> worker.spec().device().equals(device))
                .filter(worker -> models.contains(worker.spec().model()))
                .filter(worker -> worker.state() == WorkerState.READY && worker.mayBeIdle())
                .toList();
        asked.forEach(PoolWorker::checkNow);
        return !asked.isEmpty();
    }

    /** Stops workers that have been idle for longer than allowed for their model. */
    public synchronized void stopUnused(Function<String, Optional<Duration>> allowed) {
        long now = context.nanos().getAsLong();
        idle().filter(worker -> allowed.apply(worker.spec().model())
                        .filter(time -> now - worker.usedAt() >= time.toNanos())
                        .isPresent())
                .forEach(ManagedWorker::stop);
    }

    private Stream<ManagedWorker> idle() {
        return own().filter(worker -> worker.state() == WorkerState.READY && worker.isIdle());
    }

    /** The names of all models and adapters of running workers. */
    public synchronized List<String> models() {
        return views().stream()
                .filter(view ->
                        view.state() != WorkerState.STOPPED && !view.model().isEmpty())
                .flatMap(view -> Stream.concat(Stream.of(view.model()), view.adapters().stream()))
                .distinct()
                .toList();
    }

    /**
     * Leases a ready worker for a request.
     *
     * @param excluded incarnations that have failed this request
     * @param choose selects one of the ready workers
     */
    public synchronized Optional<WorkerLease> acquire(
            String model, Set<String> excluded, Function<List<WorkerCandidate>, WorkerCandidate> choose) {
        rejectWhenDraining();
        List<WorkerCandidate> candidates = ready(model, excluded);
        if (candidates.isEmpty()) {
            return Optional.empty();
        }
        PoolWorker chosen = require(choose.apply(candidates).id());
        return Optional.of(chosen.lease(chosen.uri().orElseThrow()));
    }

    private List<WorkerCandidate> ready(String model, Set<String> excluded) {
        return workers.values().stream()
                .filter(worker -> worker.state() == WorkerState.READY && worker.serves(model))
                .filter(worker -> !excluded.contains(worker.incarnation()))
                .map(worker -> new WorkerCandidate(worker.id(), worker.incarnation(), worker.load()))
                .toList();
    }

    /** Returns true if a worker that is not excluded is ready. */
    public synchronized boolean hasOther(String model, Set<String> excluded) {
        return !ready(model, excluded).isEmpty();
    }

    /** Returns true if a worker of this model can become ready. Fails if there is one that cannot be started. */
    public synchronized boolean isExpected(String model) {
        List<PoolWorker> serving = workers.values().stream()
                .filter(worker -> worker.serves(model) && worker.state() != WorkerState.STOPPED)
                .filter(worker -> !(worker instanceof ManagedWorker own && own.mayBeReplaced()))
                .toList();
        boolean expected = serving.stream().anyMatch(worker -> switch (worker) {
            case ManagedWorker own -> own.isExpected();
            case RegisteredWorker registered -> registered.state() != WorkerState.DRAINING;
        });
        Optional<WorkerView> failed = serving.stream()
                .map(PoolWorker::view)
                .filter(view -> view.state() == WorkerState.FAILED)
                .reduce((_, last) -> last);
        if (!expected && failed.isPresent()) {
            throw cannotStart(model, failed.get());
        }
        return expected;
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

    /** Waits for a change of any worker. */
    public synchronized void await(Duration most) throws InterruptedException {
        TimeUnit.NANOSECONDS.timedWait(this, Math.max(1, most.toNanos()));
    }

    synchronized void release(WorkerLease lease) {
        lease.worker().release(lease);
        changed();
    }

    synchronized void suspect(WorkerLease lease) {
        lease.worker().checkNow();
        lease.worker().tick();
    }

    /** Stops all workers that a pool started, and rejects new ones. */
    public synchronized void drainAll() {
        draining = true;
        own().filter(worker -> !worker.isTerminal()).toList().forEach(ManagedWorker::stop);
    }

    /** Returns true if no worker process is left. */
    public synchronized boolean isDrained() {
        return own().allMatch(ManagedWorker::isTerminal);
    }

    public synchronized boolean isDraining() {
        return draining;
    }

    /** Rotates the logs of workers. */
    public void rotateLogs() throws IOException {
        WorkerLogs.rotate(context.state(), live());
    }

    private synchronized Set<String> live() {
        return own().filter(worker -> !worker.isTerminal())
                .map(ManagedWorker::id)
                .collect(Collectors.toSet());
    }

    /** Unlocks the state folder; workers keep running. */
    @Override
    public void close() throws IOException {
        lock.close();
    }
}
