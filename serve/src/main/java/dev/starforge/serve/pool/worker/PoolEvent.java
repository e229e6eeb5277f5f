package dev.starforge.serve.pool.worker;

/** An event of a worker, with a human-readable detail. */
public record PoolEvent(PoolEventKind kind, String worker, WorkerState state, String detail) {
    public enum PoolEventKind {
        STARTING,
        READY,
        START_FAILED,
        START_TIMEOUT,
        EXITED,
        UNREACHABLE,
        RESTARTING,
        DRAINING,
        STOPPED,
        ADOPTED,
        REGISTERED
    }
}
