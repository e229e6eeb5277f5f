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
abstract sealed class PoolWorker permits OwnWorker, RegisteredWorker {
    /** How much more often a worker is asked that is not ready yet. */
    private static final int EAGERNESS = 50;

    final Surroundings around;
    private final String id;
    private final Supervisor supervisor;
    private final Set<Lease> leases = new LinkedHashSet<>();
    private volatile long touched;
    private WorkerState state = WorkerState.STARTING;
    private @Nullable Health health;
    private @Nullable Instant failedAt;
    private String reason = "";
    private int misses;
    private boolean checking;
    private boolean canaryFailed;
    private long checkAt;
    private long usedAt;

    PoolWorker(String id, Supervisor supervisor, Surroundings around) {
        this.id = id;
        this.supervisor = supervisor;
        this.around = around;
        touched = now();
        usedAt = touched;
        checkAt = touched;
    }

    final String id() {
        return id;
    }

    final long now() {
        return around.nanos().getAsLong();
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
    abstract void healthy(Health good);

    /** It has not said so too often. */
    abstract void unhealthy(String why);

    abstract boolean serves(String model);

    abstract WorkerView view();

    final void become(WorkerState next, Happening.Kind kind, String detail) {
        state = next;
        if (next == WorkerState.READY) {
            failedAt = null;
        } else if (next == WorkerState.FAILED && failedAt == null) {
            failedAt = around.clock().instant();
        }
        around.listener().accept(new Happening(kind, id, next, detail));
        supervisor.changed();
    }

    final void blame(String why) {
        reason = why;
    }

    /** Since when it fails; empty if it does not. */
    final Optional<Instant> failedAt() {
        return Optional.ofNullable(failedAt);
    }

    final String reason() {
        return reason;
    }

    final Optional<Health> health() {
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
        boolean quiet = now() - touched >= around.timing().canary().toNanos();
        boolean canary = state == WorkerState.READY && (quiet || canaryFailed);
        String asked = incarnation();
        around.checks().execute(() -> {
            try {
                Health said = around.client().health(uri);
                if (canary) {
                    around.client().canary(uri, ownKey());
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
        long pause = around.timing().health().toNanos();
        checkAt = now() + (state == WorkerState.STARTING ? pause / EAGERNESS : pause);
        return !asked.equals(incarnation());
    }

    private void checked(String asked, boolean canary, Health said) {
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
        if (misses >= around.timing().misses()) {
            misses = 0;
            unhealthy(
                    "no good answer to " + around.timing().misses() + " health checks in a row, the last one: " + why);
        }
    }

    final Lease lease(URI uri) {
        Lease lease = new Lease(supervisor, this, uri);
        leases.add(lease);
        usedAt = now();
        return lease;
    }

    final void release(Lease lease) {
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
        return leases.isEmpty() && health().map(Health::running).orElse(0L) == 0;
    }

    /** Nobody uses it through the pool, but at its last check somebody did. */
    final boolean mayBeIdle() {
        return leases.isEmpty() && !isIdle();
    }

    final long usedAt() {
        return usedAt;
    }

    /** The answers under way will not be completed. */
    final void cutLeases() {
        List<Lease> cut = List.copyOf(leases);
        around.checks().execute(() -> cut.forEach(Lease::cut));
    }

    final WorkerState shownState() {
        boolean busy = state == WorkerState.READY && !isIdle();
        return busy ? WorkerState.BUSY : state;
    }
}
