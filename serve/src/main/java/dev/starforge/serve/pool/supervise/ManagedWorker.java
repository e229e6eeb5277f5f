package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.api.StartSecret;
import dev.starforge.serve.pool.process.ChildProcess;
import dev.starforge.serve.pool.process.ExitStatus;
import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.WorkerEndpoint;
import dev.starforge.serve.pool.worker.WorkerFailure;
import dev.starforge.serve.pool.worker.WorkerHealth;
import dev.starforge.serve.pool.worker.WorkerSpec;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A worker process that this pool, or an earlier one, started. The journal is written before each step, so that after a crash it lists
 * every process that can exist.
 */
final class ManagedWorker extends PoolWorker {
    private final WorkerSpec spec;
    private final WorkerJournal journal;
    private final RestartBudget budget;
    private final Optional<ManagedWorker> replaces;
    private final RestartBackoff restarts;
    private @Nullable ChildProcess child;
    private @Nullable URI uri;
    private StartSecret secret;
    private int starts;
    private @Nullable Instant startedAt;
    private long deadline;
    private long readyAt;
    private boolean wasReady;
    private boolean shouldRun = true;
    private boolean stops;
    private boolean terminated;
    private int restarted;
    private String lastExit = "";
    private String killedBecause = "";
    private long restartAt;
    private long logged;

    /** @param replaces the worker that is drained when this one is ready */
    ManagedWorker(
            String id,
            Supervisor supervisor,
            SupervisorContext context,
            WorkerSpec spec,
            WorkerJournal journal,
            RestartBudget budget,
            Optional<ManagedWorker> replaces) {
        super(id, supervisor, context);
        this.spec = spec;
        this.journal = journal;
        this.budget = budget;
        this.replaces = replaces;
        restarts = new RestartBackoff(context.policy(), context.random());
        secret = StartSecret.random(context.random());
    }

    WorkerSpec spec() {
        return spec;
    }

    private Path log() {
        return context.state().resolve(WorkerLogs.FOLDER).resolve(id() + WorkerLogs.SUFFIX);
    }

    /** Starts the process. */
    void spawn() throws IOException {
        secret = StartSecret.random(context.random());
        starts++;
        uri = null;
        child = null;
        wasReady = false;
        terminated = false;
        killedBecause = "";
        deadline = now() + context.timing().start().toNanos();
        forgetHealth();
        record(0, "", "");
        logged = WorkerLogs.length(log());
        ChildProcess fresh = context.launcher().start(context.command().of(id(), spec), secret.text() + "\n", log());
        try {
            record(fresh.pid(), fresh.identity(), "");
        } catch (IOException unrecorded) {
            fresh.kill();
            throw unrecorded;
        }
        child = fresh;
        startedAt = context.clock().instant();
        transition(WorkerState.STARTING, PoolEvent.PoolEventKind.STARTING, "process " + fresh.pid());
    }

    private void record(long pid, String identity, String address) throws IOException {
        journal.write(new WorkerJournal.JournalEntry(id(), spec, secret, pid, identity, address, restarted));
    }

    /** Adopts the process of an earlier pool; if it has exited, it is restarted. */
    void adopt(WorkerJournal.JournalEntry entry, Optional<ChildProcess> found) {
        secret = entry.start();
        restarted = entry.restarts();
        logged = WorkerLogs.length(log());
        deadline = now() + context.timing().start().toNanos();
        forgetHealth();
        if (found.isEmpty()) {
            ended(ExitStatus.UNKNOWN);
            return;
        }
        child = found.get();
        startedAt = context.clock().instant();
        if (!entry.uri().isEmpty()) {
            uri = URI.create(entry.uri());
            deadline = now() + healthWindow();
        }
        transition(
                WorkerState.STARTING,
                PoolEvent.PoolEventKind.ADOPTED,
                "process " + entry.pid() + " of an earlier pool");
    }

    /** Time in which a worker must respond after its callback. */
    private long healthWindow() {
        return context.timing().health().multipliedBy(context.timing().misses()).toNanos();
    }

    /** Returns true for the key of the ready callback of the current start. */
    boolean isCallbackKey(String key) {
        return child != null && StartSecret.areEqual(secret.callbackKey(), key);
    }

    /** Handles the ready callback; the worker is ready after it has proved its identity in a health check. */
    void calledBack(String key, URI address) throws IOException {
        if (!isCallbackKey(key) || child == null) {
            throw new PoolException(
                    PoolError.WORKER_NOT_FOUND,
                    false,
                    "ready: " + id() + " was restarted; this callback is from an earlier start");
        }
        if (address.equals(uri)) {
            return;
        }
        if (uri != null || state() != WorkerState.STARTING) {
            throw new PoolException(PoolError.WORKER_NOT_FOUND, false, "ready: " + id() + " is already at " + uri);
        }
        record(child.pid(), child.identity(), address.toString());
        uri = address;
        deadline = now() + healthWindow();
        checkNow();
    }

    @Override
    void tick() {
        if (child != null) {
            child.exit().ifPresent(this::ended);
        }
        switch (state()) {
            case STARTING -> {
                if (now() - deadline >= 0) {
                    kill(
                            uri == null
                                    ? "not ready within "
                                            + context.timing().start().toSeconds() + " s"
                                    : "no successful health check at " + uri + " within "
                                            + Duration.ofNanos(healthWindow()).toSeconds() + " s");
                } else {
                    endpoint().ifPresent(this::check);
                }
            }
            case READY, BUSY -> endpoint().ifPresent(this::check);
            case DRAINING -> continueDraining();
            case FAILED -> restartIfDue();
            case STOPPED -> {}
        }
    }

    private void kill(String why) {
        if (child != null && killedBecause.isEmpty()) {
            killedBecause = why;
            child.kill();
        }
    }

    @Override
    void healthy(WorkerHealth good) {
        if (!good.workerId().equals(id())) {
            kill("at " + uri + " is worker " + good.workerId() + ", expected " + id());
        } else if (state() == WorkerState.STARTING) {
            wasReady = true;
            readyAt = now();
            transition(WorkerState.READY, PoolEvent.PoolEventKind.READY, "at " + uri);
            replaces.ifPresent(ManagedWorker::stop);
        }
    }

    @Override
    void unhealthy(String why) {
        if (state() != WorkerState.STARTING) {
            kill(why);
        }
    }

    private void ended(ExitStatus exit) {
        child = null;
        uri = null;
        lastExit = killedBecause.isEmpty() ? exit.text() : "killed by the pool (SIGKILL)";
        String why = killedBecause.isEmpty() ? lastExit + WorkerLogs.lastError(log(), logged) : killedBecause;
        failLeases();
        if (!shouldRun || exit.code() == ExitStatus.DRAINED) {
            stopped("ended with " + lastExit);
            return;
        }
        setReason(why);
        Duration ready = wasReady ? Duration.ofNanos(now() - readyAt) : Duration.ZERO;
        boolean early = !wasReady || ready.compareTo(context.timing().early()) < 0;
        if (!wasReady) {
            boolean late = !killedBecause.isEmpty();
            transition(
                    WorkerState.FAILED,
                    late ? PoolEvent.PoolEventKind.START_TIMEOUT : PoolEvent.PoolEventKind.START_FAILED,
                    why);
        } else {
            transition(WorkerState.FAILED, PoolEvent.PoolEventKind.EXITED, why);
        }
        shouldRun = exit.restarts() && (replaces.isEmpty() || wasReady);
        restartAt = now()
                + (shouldRun ? restarts.after(early, ready) : context.policy().breakerOpen()).toNanos();
        if (!shouldRun) {
            forget();
        }
    }

    /** Restarts the process when the backoff has elapsed. */
    private void restartIfDue() {
        if (!shouldRun || now() - restartAt < 0 || !budget.take(now())) {
            return;
        }
        restarted++;
        context.listener().accept(new PoolEvent(PoolEvent.PoolEventKind.RESTARTING, id(), state(), reason()));
        try {
            spawn();
        } catch (IOException failure) {
            setReason("start: " + failure.getMessage());
            restartAt = now() + restarts.after(true, Duration.ZERO).toNanos();
            transition(WorkerState.FAILED, PoolEvent.PoolEventKind.START_FAILED, reason());
        }
    }

    /** Sends no more requests; running requests have the drain time to finish. */
    void drain() {
        if (state() == WorkerState.READY || state() == WorkerState.STARTING) {
            shouldRun = false;
            deadline = now() + context.timing().drain().toNanos();
            transition(WorkerState.DRAINING, PoolEvent.PoolEventKind.DRAINING, "draining");
        }
    }

    /** Drains and then terminates the process. */
    void stop() {
        shouldRun = false;
        stops = true;
        if (child == null) {
            stopped("it had no process");
        } else {
            drain();
            continueDraining();
        }
    }

    private void continueDraining() {
        boolean late = now() - deadline >= 0;
        if (terminated) {
            if (late) {
                kill("did not exit within " + context.timing().terminate().toSeconds() + " s of SIGTERM");
            }
        } else if (stops && (load() == 0 || late)) {
            terminate();
        } else if (late) {
            failLeases();
        }
    }

    private void terminate() {
        terminated = true;
        deadline = now() + context.timing().terminate().toNanos();
        if (child != null && child.canTerminate()) {
            child.terminate();
        } else {
            endpoint()
                    .ifPresent(worker -> context.checks().execute(() -> {
                        try {
                            context.client().shutdown(worker);
                        } catch (IOException unheard) {
                            // it is killed after the terminate timeout
                        } catch (InterruptedException stopped) {
                            Thread.currentThread().interrupt();
                        }
                    }));
        }
    }

    private void stopped(String detail) {
        shouldRun = false;
        forget();
        transition(WorkerState.STOPPED, PoolEvent.PoolEventKind.STOPPED, detail);
    }

    /** Removes the journal entry: there is no process to adopt. */
    private void forget() {
        try {
            journal.remove(id());
        } catch (IOException stays) {
            setReason("journal: " + stays.getMessage()); // harmless: the identity does not match a later process
        }
    }

    /** Device memory reserved for it, also while it exits or waits for a restart. */
    long reservedBytes() {
        return child != null || shouldRun ? spec.reserved() : 0;
    }

    /** Returns true while its memory is not allocated yet, so that the system counts it as free. */
    boolean isLoading() {
        return reservedBytes() > 0 && !wasReady;
    }

    @Override
    boolean isExpected() {
        return state() == WorkerState.STARTING || state() == WorkerState.READY || shouldRun && !restarts.isOpen();
    }

    /** Returns true if the worker will not be started again. */
    boolean isTerminal() {
        return state() == WorkerState.STOPPED || state() == WorkerState.FAILED && !shouldRun;
    }

    /** Returns true if another worker may be started for its model after its failure. */
    boolean mayBeReplaced() {
        return isTerminal() && now() - restartAt >= 0;
    }

    @Override
    String incarnation() {
        return id() + "/" + starts;
    }

    @Override
    Optional<WorkerEndpoint> endpoint() {
        return Optional.ofNullable(uri).map(address -> WorkerEndpoint.managed(address, secret));
    }

    /** A starting worker has warmed up, and is known by its secret. */
    @Override
    boolean isUnproven() {
        return false;
    }

    @Override
    boolean serves(String model) {
        return spec.model().equals(model)
                || spec.adapters().containsKey(model)
                || health().filter(reported -> reported.serves(model)).isPresent();
    }

    private WorkerFailure failure() {
        boolean failed = state() == WorkerState.FAILED;
        double seconds = failed && shouldRun ? Math.max(0, restartAt - now()) / 1e9 : -1;
        String advice = failed && !shouldRun
                ? "It is not restarted automatically: see " + WorkerLogs.FOLDER + "/" + id() + WorkerLogs.SUFFIX
                        + " in the state folder for the error, then POST /v2/workers/" + id() + "/reload."
                : "";
        return new WorkerFailure(lastExit, reason(), failedAt(), seconds, advice);
    }

    @Override
    WorkerView view() {
        return new WorkerView(
                id(),
                true,
                spec.model(),
                health().map(WorkerHealth::names).orElse(List.of()),
                spec.device(),
                shownState(),
                reservedBytes(),
                child == null ? 0 : health().map(WorkerHealth::memory).orElse(0L),
                uri().map(URI::toString).orElse(""),
                Optional.ofNullable(startedAt),
                restarted,
                failure(),
                load(),
                health().map(WorkerHealth::capabilities).orElse(List.of()),
                health().map(WorkerHealth::adapters)
                        .orElseGet(
                                () -> spec.adapters().keySet().stream().sorted().toList()));
    }
}
