package dev.starforge.serve.pool.worker;

/** Error codes of the pool API. */
public enum PoolError {
    INSUFFICIENT_MEMORY(503),
    DEVICE_UNAVAILABLE(503),
    MODEL_NOT_FOUND(404),
    MODEL_INCOMPATIBLE(400),
    WORKER_START_FAILED(503),
    WORKER_START_TIMEOUT(503),
    WORKER_NOT_FOUND(404),
    /** The worker failed before its response was complete. */
    WORKER_LOST(503),
    /** The worker has reached a limit of its own. */
    WORKER_OVERLOADED(503),
    /** The pool is shutting down. */
    POOL_DRAINING(503);

    private final int status;

    PoolError(int status) {
        this.status = status;
    }

    public int status() {
        return status;
    }
}
