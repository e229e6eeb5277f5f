package dev.starforge.serve.pool.supervise;

import dev.starforge.serve.pool.worker.PoolEvent;
import dev.starforge.serve.pool.worker.WorkerEndpoint;
import dev.starforge.serve.pool.worker.WorkerHealth;
import dev.starforge.serve.pool.worker.WorkerOverloadedException;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import java.io.IOException;
import java.net.URI;
import java.time.Duration;
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

    /** Factor by which a worker that failed a request or a canary is checked more often. */
    private static final int SUSPECT_CHECK_FACTOR = 2;

    /** Part of the interval of checks that is between two checks of a worker, however many requests fail. */
    private static final int SUSPECT_PAUSE_FACTOR = 10;

    /** Health checks without progress after which a busy worker gets a canary. */
    private static final int STALLED_CHECKS = 2;

    /** Consecutive requests without a response after which a worker has failed, whatever its health checks report. */
    private static final int MAX_FAILED_REQUESTS = 3;

    /** The count of generated tokens before the first health check. */
    private static final long UNKNOWN = -1;

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
    private boolean suspected;
    private int failedRequests;
    private long failedRequestAt;
    private long generated = UNKNOWN;
    private long checkAt;
    private long checkedAt;
    private long usedAt;

    PoolWorker(String id, Supervisor supervisor, SupervisorContext context) {
        this.id = id;
        this.supervisor = supervisor;
        this.context = context;
        touched = now();
        usedAt = touched;
        checkAt = touched;
        checkedAt = touched - context.timing().health().toNanos();
        failedRequestAt = touched;
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

    /** How the pool reaches it; empty before it is known. */
    abstract Optional<WorkerEndpoint> endpoint();

    final Optional<URI> uri() {
        return endpoint().map(WorkerEndpoint::uri);
    }

    /** Returns true if a health check includes a canary request even if there is no reason for doubt. */
    abstract boolean isUnproven();

    abstract void tick();

    /** Called after each successful health check. */
    abstract void healthy(WorkerHealth good);

    /** Called after too many failed health checks. */
    abstract void unhealthy(String why);

    abstract boolean serves(String model);

    /** Returns true if the worker is ready, or can become ready without intervention. */
    abstract boolean isExpected();

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
        suspected = false;
        failedRequests = 0;
        generated = UNKNOWN;
        checkNow();
        touch();
    }

    final void touch() {
        touched = now();
    }

    final void checkNow() {
        checkAt = now();
    }

    /** Runs a health check if it is due; also generates a token if the worker makes no progress, or is in doubt. */
    final void check(WorkerEndpoint endpoint) {
        if (checking || now() - checkAt < 0) {
            return;
        }
        checking = true;
        boolean canary = needsCanary();
        String asked = incarnation();
        try {
            context.checks().execute(() -> check(endpoint, asked, canary));
        } catch (RuntimeException | Error notStarted) {
            checking = false;
            throw notStarted;
        }
    }

    /** Whatever a worker answers, the check ends, so that the next one can begin. */
    private void check(WorkerEndpoint endpoint, String asked, boolean canary) {
        try {
            WorkerHealth reported = context.client().health(endpoint);
            boolean generates = canary && reported.isServing();
            if (generates && !acceptsCanary(endpoint)) {
                supervisor.locked(() -> overloaded(asked, reported));
            } else {
                supervisor.locked(() -> checked(asked, generates, reported));
            }
        } catch (WorkerOverloadedException alive) {
            supervisor.locked(() -> overloaded(asked));
        } catch (InterruptedException stopped) {
            supervisor.locked(() -> over(asked));
            Thread.currentThread().interrupt();
        } catch (Exception | StackOverflowError failure) {
            String why = failure.getMessage() == null ? failure.toString() : failure.getMessage();
            supervisor.locked(() -> missed(asked, canary, why));
        } catch (Error failure) { // such as a full heap, which is not the worker's fault
            supervisor.locked(() -> over(asked));
            throw failure;
        }
    }

    /** Generates a token. Returns false if the worker is overloaded. */
    private boolean acceptsCanary(WorkerEndpoint endpoint) throws IOException, InterruptedException {
        try {
            context.client().canary(endpoint);
            return true;
        } catch (WorkerOverloadedException e) {
            return false;
        }
    }

    private boolean needsCanary() {
        if (state != WorkerState.READY) {
            return isUnproven();
        }
        boolean busy = !isIdle();
        Duration stalled = context.timing().health().multipliedBy(STALLED_CHECKS);
        long patience = (busy ? stalled : context.timing().canary()).toNanos();
        return suspected || canaryFailed || now() - touched >= patience;
    }

    private boolean over(String asked) {
        checking = false;
        checkedAt = now();
        long pause = context.timing().health().toNanos();
        boolean doubtful = suspected || canaryFailed;
        int factor = state == WorkerState.STARTING ? STARTUP_CHECK_FACTOR : doubtful ? SUSPECT_CHECK_FACTOR : 1;
        checkAt = now() + pause / factor;
        return !asked.equals(incarnation());
    }

    /** It accepts no connection for its health: it is alive, but whether its engine works is not known. */
    private void overloaded(String asked) {
        if (!over(asked)) {
            misses = 0;
        }
    }

    /**
     * It reports its health, but rejects the canary. Requests that fill its queue are also rejected when its engine hangs, so the worker is
     * alive only if it has generated tokens since the last check.
     */
    private void overloaded(String asked, WorkerHealth reported) {
        if (over(asked)) {
            return;
        }
        boolean first = generated == UNKNOWN;
        boolean progress = !first && reported.generated() > generated;
        generated = reported.generated();
        if (progress) {
            misses = 0;
            failedRequests = 0;
            suspected = false;
            touch();
            supervisor.changed();
        } else if (first) {
            misses = 0;
        } else {
            miss("it is overloaded and has generated no token since the last check");
        }
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
            suspected = false;
            supervisor.changed();
        }
        if (canary || reported.generated() > Math.max(0, generated)) {
            touch();
        }
        generated = reported.generated();
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

    /** A request failed on this worker: the next check, which generates a token, is soon. */
    final void suspect() {
        suspected = true;
        long pause = context.timing().health().toNanos() / SUSPECT_PAUSE_FACTOR;
        checkAt = Math.min(checkAt, Math.max(now(), checkedAt + pause));
        tick();
    }

    /**
     * A request had no response, which no client can cause. A worker that fails all requests has failed, even if it reports being
     * healthy. Requests that fail at once, as when the machine stalls, count as one.
     *
     * @param begun when the request was sent
     */
    final void unanswered(long begun, String why) {
        if (begun - failedRequestAt >= 0) {
            failedRequests++;
            failedRequestAt = now();
        }
        if (failedRequests >= MAX_FAILED_REQUESTS && state == WorkerState.READY) {
            failedRequests = 0;
            unhealthy(MAX_FAILED_REQUESTS + " requests in a row had no response, the last one: " + why);
        } else {
            suspect();
        }
    }

    final void answered() {
        failedRequests = 0;
    }

    /** Returns true while a check must show whether a failed request was its fault. */
    final boolean isSuspected() {
        return suspected;
    }

    final WorkerLease lease(WorkerEndpoint endpoint) {
        WorkerLease lease = new WorkerLease(supervisor, this, endpoint);
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
