package dev.starforge.serve.pool.supervise;

/** Something that happened to a worker; {@code detail} is for people. */
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
