package dev.starforge.serve.pool.supervise;

import java.io.IOException;
import java.net.URI;
import java.time.Instant;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A worker as the pool sees it: what it says of itself, and who uses it. All methods but {@link #touch} are called with the
 * supervisor's lock.
 */
abstract sealed class PoolWorker permits ManagedWorker, RegisteredWorker {
    /** How much more often a worker is asked that is not ready yet. */
    private static final int EAGERNESS = 50;

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

    /** One start of it; changes when its process does. */
    abstract String incarnation();

    abstract Optional<URI> uri();

    /** The key it is asked with; empty is the client's own. */
    abstract String key();

    /** The key for what the pool itself asks. */
    abstract String ownKey();

    abstract void tick();

    /** It says that it is well; called for each good check. */
    abstract void healthy(WorkerHealth good);

    /** It has not said so too often. */
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

    /** Since when it fails; empty if it does not. */
    final Optional<Instant> failedAt() {
        return Optional.ofNullable(failedAt);
    }

    final String reason() {
        return reason;
    }

    final Optional<WorkerHealth> health() {
        return Optional.ofNullable(health);
    }

    /** A new process, of which nothing is known. */
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

    /** Asks how it is when that is due, and for a token when it has shown no sign of life for long. */
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
                WorkerHealth said = context.client().health(uri);
                if (canary) {
                    context.client().canary(uri, ownKey());
                }
                supervisor.locked(() -> checked(asked, canary, said));
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
        checkAt = now() + (state == WorkerState.STARTING ? pause / EAGERNESS : pause);
        return !asked.equals(incarnation());
    }

    private void checked(String asked, boolean canary, WorkerHealth said) {
        if (over(asked)) {
            return;
        }
        boolean loads = state == WorkerState.STARTING && said.status().equals("loading");
        if (!loads && !said.status().equals("ok") && state != WorkerState.DRAINING) {
            miss("its health is " + said.status());
            return;
        }
        misses = 0;
        health = said;
        if (canary) {
            canaryFailed = false;
            touch();
        }
        if (said.running() > 0) {
            usedAt = now();
        }
        if (!loads) {
            healthy(said);
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
            unhealthy(
                    "no good answer to " + context.timing().misses() + " health checks in a row, the last one: " + why);
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

    /** Nobody waits for it, through the pool or straight. */
    final boolean isIdle() {
        return leases.isEmpty() && health().map(WorkerHealth::running).orElse(0L) == 0;
    }

    /** Nobody uses it through the pool, but at its last check somebody did. */
    final boolean mayBeIdle() {
        return leases.isEmpty() && !isIdle();
    }

    final long usedAt() {
        return usedAt;
    }

    /** The answers under way will not be completed. */
    final void failLeases() {
        List<WorkerLease> cut = List.copyOf(leases);
        context.checks().execute(() -> cut.forEach(WorkerLease::markLost));
    }

    final WorkerState shownState() {
        boolean busy = state == WorkerState.READY && !isIdle();
        return busy ? WorkerState.BUSY : state;
    }
}
