package dev.starforge.serve.pool.worker;

/** The state of a worker. */
public enum WorkerState {
    /** The process starts or runs, but is not ready. */
    STARTING,
    /** Receives requests. */
    READY,
    /** Ready, with requests in flight. */
    BUSY,
    /** Receives no more requests. */
    DRAINING,
    /** Stopped on request or because it was idle. */
    STOPPED,
    /** Exited or does not respond; usually restarted. */
    FAILED
}
