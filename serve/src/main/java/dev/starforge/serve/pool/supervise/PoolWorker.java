package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.serve.pool.worker.WorkerHealth;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import java.io.IOException;
import java.net.URI;
import java.time.Instant;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * State, health and leases of a worker. All methods except {@link #touch} require the supervisor's lock.
 */
abstract sealed class PoolWorker permits ManagedWorker, RegisteredWorker {
    /** Factor by which a starting worker is checked more often. */
    private static final int STARTUP_CHECK_FACTOR = 50;

    final SupervisorContext context;
    private final String id;
    private final Supervisor supervisor;
    private final Set<WorkerLease> leases = new LinkedHashSet<>();
    private volatile long touched;
    private WorkerState state = WorkerState.STARTING;
    private @Nullable WorkerHealth health;
    private @Nullable Instant failedAt;
    private String reason = "";
    private int misses;
    private boolean checking;
    private boolean canaryFailed;
    private long checkAt;
    private long usedAt;

    PoolWorker(String id, Supervisor supervisor, SupervisorContext context) {
        this.id = id;
        this.supervisor = supervisor;
        this.context = context;
        touched = now();
        usedAt = touched;
        checkAt = touched;
    }

    final String id() {
        return id;
    }

    final long now() {
        return context.nanos().getAsLong();
    }

    final WorkerState state() {
        return state;
    }

    /** Identifies one start; changes with each process. */
    abstract String incarnation();

    abstract Optional<URI> uri();

    /** The API key for requests; empty if the client's key is passed through. */
    abstract String key();

    /** The API key for the pool's own requests. */
    abstract String ownKey();

    abstract void tick();

    /** Called after each successful health check. */
    abstract void healthy(WorkerHealth good);

    /** Called after too many failed health checks. */
    abstract void unhealthy(String why);

    abstract boolean serves(String model);

    abstract WorkerView view();

    final void transition(WorkerState next, PoolEvent.PoolEventKind kind, String detail) {
        state = next;
        if (next == WorkerState.READY) {
            failedAt = null;
        } else if (next == WorkerState.FAILED && failedAt == null) {
            failedAt = context.clock().instant();
        }
        context.listener().accept(new PoolEvent(kind, id, next, detail));
        supervisor.changed();
    }

    final void setReason(String why) {
        reason = why;
    }

    /** Start of the current failure; empty if there is none. */
    final Optional<Instant> failedAt() {
        return Optional.ofNullable(failedAt);
    }

    final String reason() {
        return reason;
    }

    final Optional<WorkerHealth> health() {
        return Optional.ofNullable(health);
    }

    /** Resets the health for a new process. */
    final void forgetHealth() {
        health = null;
        misses = 0;
        canaryFailed = false;
        checkNow();
        touch();
    }

    final void touch() {
        touched = now();
    }

    final void checkNow() {
        checkAt = now();
    }

    /** Runs a health check if it is due; also generates a token if the worker has sent nothing for long. */
    final void check(URI uri) {
        if (checking || now() - checkAt < 0) {
            return;
        }
        checking = true;
        boolean quiet = now() - touched >= context.timing().canary().toNanos();
        boolean canary = state == WorkerState.READY && (quiet || canaryFailed);
        String asked = incarnation();
        context.checks().execute(() -> {
            try {
                WorkerHealth reported = context.client().health(uri);
                if (canary) {
                    context.client().canary(uri, ownKey());
                }
                supervisor.locked(() -> checked(asked, canary, reported));
            } catch (IOException failure) {
                supervisor.locked(() -> missed(asked, canary, String.valueOf(failure.getMessage())));
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        });
    }

    private boolean over(String asked) {
        checking = false;
        long pause = context.timing().health().toNanos();
        checkAt = now() + (state == WorkerState.STARTING ? pause / STARTUP_CHECK_FACTOR : pause);
        return !asked.equals(incarnation());
    }

    private void checked(String asked, boolean canary, WorkerHealth reported) {
        if (over(asked)) {
            return;
        }
        boolean loads = state == WorkerState.STARTING && reported.status().equals("loading");
        if (!loads && !reported.status().equals("ok") && state != WorkerState.DRAINING) {
            miss("its health is " + reported.status());
            return;
        }
        misses = 0;
        health = reported;
        if (canary) {
            canaryFailed = false;
            touch();
        }
        if (reported.running() > 0) {
            usedAt = now();
        }
        if (!loads) {
            healthy(reported);
        }
    }

    private void missed(String asked, boolean canary, String why) {
        if (!over(asked)) {
            canaryFailed |= canary;
            miss(why);
        }
    }

    private void miss(String why) {
        misses++;
        if (misses >= context.timing().misses()) {
            misses = 0;
            unhealthy(context.timing().misses() + " health checks in a row failed, the last one: " + why);
        }
    }

    final WorkerLease lease(URI uri) {
        WorkerLease lease = new WorkerLease(supervisor, this, uri);
        leases.add(lease);
        usedAt = now();
        return lease;
    }

    final void release(WorkerLease lease) {
        leases.remove(lease);
        usedAt = now();
        if (mayBeIdle()) {
            checkNow();
        }
    }

    final int load() {
        return leases.size();
    }

    /** Returns true if it has no requests, of the pool or of direct clients. */
    final boolean isIdle() {
        return leases.isEmpty() && health().map(WorkerHealth::running).orElse(0L) == 0;
    }

    /** Returns true if the pool has no requests but the last health check reported some. */
    final boolean mayBeIdle() {
        return leases.isEmpty() && !isIdle();
    }

    final long usedAt() {
        return usedAt;
    }

    /** Fails all leases: running responses will not complete. */
    final void failLeases() {
        List<WorkerLease> cut = List.copyOf(leases);
        context.checks().execute(() -> cut.forEach(WorkerLease::markLost));
    }

    final WorkerState shownState() {
        boolean busy = state == WorkerState.READY && !isIdle();
        return busy ? WorkerState.BUSY : state;
    }
}
