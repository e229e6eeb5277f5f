package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.process.Child;
import dev.starforge.serve.pool.process.Exit;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A worker that this pool, or the one before it, started: a process, and what becomes of it. The journal is written before a
 * step counts, so that whoever reads it after a crash knows of every process there may be.
 */
final class OwnWorker extends PoolWorker {
    private final WorkerSpec spec;
    private final Journal journal;
    private final RestartBudget budget;
    private final Optional<OwnWorker> replaces;
    private final Restarts restarts;
    private @Nullable Child child;
    private @Nullable URI uri;
    private String start = "";
    private @Nullable Instant startedAt;
    private long deadline;
    private long readyAt;
    private boolean wasReady;
    private boolean wanted = true;
    private boolean stops;
    private boolean terminated;
    private int restarted;
    private String lastExit = "";
    private String killedBecause = "";
    private long restartAt;
    private long logged;

    /** @param replaces the one that is drained when this one is ready */
    OwnWorker(
            String id,
            Supervisor supervisor,
            Surroundings around,
            WorkerSpec spec,
            Journal journal,
            RestartBudget budget,
            Optional<OwnWorker> replaces) {
        super(id, supervisor, around);
        this.spec = spec;
        this.journal = journal;
        this.budget = budget;
        this.replaces = replaces;
        restarts = new Restarts(around.policy(), around.random());
    }

    WorkerSpec spec() {
        return spec;
    }

    private Path log() {
        return around.state().resolve(WorkerLogs.FOLDER).resolve(id() + WorkerLogs.SUFFIX);
    }

    /** Starts its process. */
    void spawn() throws IOException {
        start = HexFormat.of().toHexDigits(around.random().nextLong());
        uri = null;
        child = null;
        wasReady = false;
        terminated = false;
        killedBecause = "";
        deadline = now() + around.timing().start().toNanos();
        forgetHealth();
        record(0, "", "");
        logged = WorkerLogs.length(log());
        Child fresh = around.launcher().start(around.command().of(id(), spec, start), log());
        try {
            record(fresh.pid(), fresh.identity(), "");
        } catch (IOException unrecorded) {
            fresh.kill();
            throw unrecorded;
        }
        child = fresh;
        startedAt = around.clock().instant();
        become(WorkerState.STARTING, Happening.Kind.STARTING, "process " + fresh.pid());
    }

    private void record(long pid, String identity, String address) throws IOException {
        journal.write(new Journal.Entry(id(), spec, start, pid, identity, address, restarted));
    }

    /** Takes over what an earlier pool left: a process, if it lives, is looked at; else it is started again. */
    void adopt(Journal.Entry entry, Optional<Child> found) {
        start = entry.start();
        restarted = entry.restarts();
        logged = WorkerLogs.length(log());
        deadline = now() + around.timing().start().toNanos();
        forgetHealth();
        if (found.isEmpty()) {
            ended(Exit.UNKNOWN);
            return;
        }
        child = found.get();
        startedAt = around.clock().instant();
        if (!entry.uri().isEmpty()) {
            uri = URI.create(entry.uri());
            deadline = now() + patience();
        }
        become(WorkerState.STARTING, Happening.Kind.ADOPTED, "process " + entry.pid() + " of an earlier pool");
    }

    /** For a worker that has said where it is, to answer there. */
    private long patience() {
        return around.timing().health().multipliedBy(around.timing().misses()).toNanos();
    }

    /** The worker's process says that it is ready; it is asked before it is believed. */
    void calledBack(String given, URI address) throws IOException {
        if (!given.equals(start) || child == null) {
            throw new PoolFailure(
                    ErrorCode.WORKER_NOT_FOUND, false, "ready: no such start of " + id() + "; it was started again");
        }
        if (address.equals(uri)) {
            return;
        }
        if (uri != null || state() != WorkerState.STARTING) {
            throw new PoolFailure(ErrorCode.WORKER_NOT_FOUND, false, "ready: " + id() + " is at " + uri + " already");
        }
        record(child.pid(), child.identity(), address.toString());
        uri = address;
        deadline = now() + patience();
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
                                            + around.timing().start().toSeconds() + " s"
                                    : "no good answer at " + uri + " within "
                                            + Duration.ofNanos(patience()).toSeconds() + " s");
                } else if (uri != null) {
                    check(uri);
                }
            }
            case READY, BUSY -> uri().ifPresent(this::check);
            case DRAINING -> drainOn();
            case FAILED -> startAgain();
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
    void healthy(Health good) {
        if (!good.workerId().equals(id())) {
            kill("at " + uri + " answers " + good.workerId() + ", expected " + id());
        } else if (state() == WorkerState.STARTING) {
            wasReady = true;
            readyAt = now();
            become(WorkerState.READY, Happening.Kind.READY, "at " + uri);
            replaces.ifPresent(OwnWorker::stop);
        }
    }

    @Override
    void unhealthy(String why) {
        if (state() != WorkerState.STARTING) {
            kill(why);
        }
    }

    private void ended(Exit exit) {
        child = null;
        uri = null;
        lastExit = killedBecause.isEmpty() ? exit.text() : "killed by the pool (SIGKILL)";
        String why = killedBecause.isEmpty() ? lastExit + WorkerLogs.complaint(log(), logged) : killedBecause;
        cutLeases();
        if (!wanted || exit.code() == Exit.DRAINED) {
            stopped("ended with " + lastExit);
            return;
        }
        blame(why);
        Duration ready = wasReady ? Duration.ofNanos(now() - readyAt) : Duration.ZERO;
        boolean early = !wasReady || ready.compareTo(around.timing().early()) < 0;
        if (!wasReady) {
            boolean late = !killedBecause.isEmpty();
            become(WorkerState.FAILED, late ? Happening.Kind.START_TIMEOUT : Happening.Kind.START_FAILED, why);
        } else {
            become(WorkerState.FAILED, Happening.Kind.EXITED, why);
        }
        wanted = exit.restarts() && (replaces.isEmpty() || wasReady);
        restartAt =
                now() + (wanted ? restarts.after(early, ready) : around.policy().breakerOpen()).toNanos();
        if (!wanted) {
            forget();
        }
    }

    /** What fails to start again is a failed start like any other. */
    private void startAgain() {
        if (!wanted || now() - restartAt < 0 || !budget.take(now())) {
            return;
        }
        restarted++;
        around.listener().accept(new Happening(Happening.Kind.RESTARTING, id(), state(), reason()));
        try {
            spawn();
        } catch (IOException failure) {
            blame("start: " + failure.getMessage());
            restartAt = now() + restarts.after(true, Duration.ZERO).toNanos();
            become(WorkerState.FAILED, Happening.Kind.START_FAILED, reason());
        }
    }

    /** It gets no more requests; those under way have a while to finish. */
    void drain() {
        if (state() == WorkerState.READY || state() == WorkerState.STARTING) {
            wanted = false;
            deadline = now() + around.timing().drain().toNanos();
            become(WorkerState.DRAINING, Happening.Kind.DRAINING, "it gets no more requests");
        }
    }

    /** Drains it, and ends it then. */
    void stop() {
        wanted = false;
        stops = true;
        if (child == null) {
            stopped("it had no process");
        } else {
            drain();
            drainOn();
        }
    }

    private void drainOn() {
        boolean late = now() - deadline >= 0;
        if (terminated) {
            if (late) {
                kill("no end within " + around.timing().terminate().toSeconds() + " s of SIGTERM");
            }
        } else if (stops && (load() == 0 || late)) {
            terminate();
        } else if (late) {
            cutLeases();
        }
    }

    private void terminate() {
        terminated = true;
        deadline = now() + around.timing().terminate().toNanos();
        if (child != null && child.canTerminate()) {
            child.terminate();
        } else {
            uri().ifPresent(address -> around.checks().execute(() -> {
                try {
                    around.client().shutdown(address, ownKey());
                } catch (IOException unheard) {
                    // its time to end runs all the same
                } catch (InterruptedException stopped) {
                    Thread.currentThread().interrupt();
                }
            }));
        }
    }

    private void stopped(String detail) {
        wanted = false;
        forget();
        become(WorkerState.STOPPED, Happening.Kind.STOPPED, detail);
    }

    /** There is no process any more that a later pool could look for. */
    private void forget() {
        try {
            journal.remove(id());
        } catch (IOException stays) {
            blame("journal: " + stays.getMessage()); // its pid is that of no process of ours: nothing will be signalled
        }
    }

    /** Bytes of its device that cannot be had: also of a process that is ending, and of one that comes back. */
    long held() {
        return child != null || wanted ? spec.reserved() : 0;
    }

    /** Whether its memory is still to be filled, so that the system counts it as free. */
    boolean isLoading() {
        return held() > 0 && !wasReady;
    }

    /** Whether somebody who waits may hope. */
    boolean isExpected() {
        return state() == WorkerState.STARTING || state() == WorkerState.READY || wanted && !restarts.isOpen();
    }

    /** Whether nothing becomes of it by itself any more. */
    boolean isOver() {
        return state() == WorkerState.STOPPED || state() == WorkerState.FAILED && !wanted;
    }

    /** Whether its failure is so old that somebody who asks for its model may have another one tried. */
    boolean isForgiven() {
        return isOver() && now() - restartAt >= 0;
    }

    @Override
    String incarnation() {
        return id() + "/" + start;
    }

    @Override
    Optional<URI> uri() {
        return Optional.ofNullable(uri);
    }

    @Override
    String key() {
        return "";
    }

    @Override
    String ownKey() {
        return around.command().firstKey();
    }

    @Override
    boolean serves(String model) {
        return spec.model().equals(model)
                || spec.adapters().containsKey(model)
                || health().filter(said -> said.adapters().contains(model)).isPresent();
    }

    private WorkerFailure failure() {
        boolean failed = state() == WorkerState.FAILED;
        double seconds = failed && wanted ? Math.max(0, restartAt - now()) / 1e9 : -1;
        String advice = failed && !wanted
                ? "It is not started again by itself: mend what " + WorkerLogs.FOLDER + "/" + id() + WorkerLogs.SUFFIX
                        + " in the state folder says, then POST /v2/workers/" + id() + "/reload."
                : "";
        return new WorkerFailure(lastExit, reason(), failedAt(), seconds, advice);
    }

    @Override
    WorkerView view() {
        return new WorkerView(
                id(),
                true,
                spec.model(),
                spec.device(),
                shownState(),
                held(),
                child == null ? 0 : health().map(Health::memory).orElse(0L),
                uri().map(URI::toString).orElse(""),
                Optional.ofNullable(startedAt),
                restarted,
                failure(),
                load(),
                health().map(Health::capabilities).orElse(List.of()),
                health().map(Health::adapters)
                        .orElseGet(
                                () -> spec.adapters().keySet().stream().sorted().toList()));
    }
}
