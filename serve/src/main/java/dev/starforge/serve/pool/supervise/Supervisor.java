package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.WorkerEndpoint;
import dev.starforge.serve.pool.worker.WorkerSpec;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import dev.starforge.text.FileException;
import dev.starforge.text.file.FolderLock;
import dev.starforge.text.file.PrivateFiles;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
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
        Path state = context.state();
        if (!Files.exists(state)) {
            PrivateFiles.folder(state);
        }
        PrivateFiles.folder(state.resolve(WorkerLogs.FOLDER));
        try {
            lock = FolderLock.take(state, "starforge pool");
        } catch (FileException taken) {
            throw new IOException("pool: its state folder " + taken.getMessage(), taken);
        }
        PrivateFiles.restrict(state.resolve(FolderLock.FILE));
        journal = new WorkerJournal(state.resolve("workers"));
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
    public synchronized String register(WorkerEndpoint endpoint) {
        rejectWhenDraining();
        URI uri = endpoint.uri();
        String id = "r-" + uri.getHost() + "-" + uri.getPort();
        if (!workers.containsKey(id)) {
            workers.put(id, new RegisteredWorker(id, this, context, endpoint));
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

    /** Returns true for the key of the ready callback of a worker that was started here. */
    public synchronized boolean isCallbackKey(String key) {
        return own().filter(worker -> worker.isCallbackKey(key)).count() > 0;
    }

    /** Handles a ready callback that has the key of its start. */
    public synchronized void calledBack(String id, String key, URI uri) {
        try {
            requireOwn(id).calledBack(key, uri);
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
        RuntimeException failure = null;
        for (PoolWorker worker : List.copyOf(workers.values())) {
            try {
                worker.tick();
            } catch (RuntimeException e) { // thrown after all other workers had their turn
                failure = e;
            }
        }
        if (failure != null) {
            throw failure;
        }
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

    /** All names of the models and adapters of running workers. */
    public synchronized List<String> models() {
        return views().stream()
                .filter(view ->
                        view.state() != WorkerState.STOPPED && !view.model().isEmpty())
                .flatMap(view -> Stream.of(List.of(view.model()), view.names(), view.adapters()))
                .flatMap(List::stream)
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
        return Optional.of(chosen.lease(chosen.endpoint().orElseThrow()));
    }

    /** The ready workers for a request; those in doubt only if there are no others. */
    private List<WorkerCandidate> ready(String model, Set<String> excluded) {
        List<PoolWorker> ready = workers.values().stream()
                .filter(worker -> worker.state() == WorkerState.READY && worker.serves(model))
                .filter(worker -> !excluded.contains(worker.incarnation()))
                .toList();
        boolean allInDoubt = ready.stream().allMatch(PoolWorker::isSuspected);
        return ready.stream()
                .filter(worker -> allInDoubt || !worker.isSuspected())
                .map(worker -> new WorkerCandidate(worker.id(), worker.incarnation(), worker.load()))
                .toList();
    }

    /** Returns true if a worker that is not excluded is ready. */
    public synchronized boolean hasOther(String model, Set<String> excluded) {
        return !ready(model, excluded).isEmpty();
    }

    /** As {@link Availability#isExpected}. */
    public synchronized boolean isExpected(String model, Set<String> excluded) {
        return Availability.isExpected(model, List.copyOf(workers.values()), excluded);
    }

    /** Fails if the workers of a model that the pool cannot start are those that it did not start, and cannot be reached. */
    public synchronized void rejectUnreachable(String model) {
        Availability.rejectUnreachable(model, List.copyOf(workers.values()));
    }

    /** Waits for a change of any worker. */
    public synchronized void await(Duration most) throws InterruptedException {
        TimeUnit.NANOSECONDS.timedWait(this, Math.max(1, most.toNanos()));
    }

    synchronized void release(WorkerLease lease) {
        lease.worker().release(lease);
        changed();
    }

    /** What a request says of the start of a worker that it was sent to. */
    synchronized void reported(WorkerLease lease, Consumer<PoolWorker> report) {
        if (lease.incarnation().equals(lease.worker().incarnation())) {
            report.accept(lease.worker());
        }
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
