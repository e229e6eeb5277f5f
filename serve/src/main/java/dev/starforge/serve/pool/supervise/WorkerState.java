package dev.starforge.serve.pool.supervise;

/** What a worker is doing. */
public enum WorkerState {
    /** Its process runs, or is about to; it has not said that it is ready. */
    STARTING,
    /** Requests go to it. */
    READY,
    /** The same, with requests under way. */
    BUSY,
    /** It gets no more requests. */
    DRAINING,
    /** It ended because it was told to, or had nothing left to do. */
    STOPPED,
    /** It ended or does not answer; unless it says otherwise, it is started again. */
    FAILED
}
