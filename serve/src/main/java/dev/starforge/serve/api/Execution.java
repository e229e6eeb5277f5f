package dev.starforge.serve.api;

/** How a route's handler runs. Virtual threads are not preempted: long computation on one delays all others, even health checks. */
public enum Execution {
    /** On the connection's virtual thread: responds from memory, without blocking. */
    INLINE,
    /** On a platform thread: may parse large requests or block. */
    BLOCKING,
    /** On the connection's virtual thread, counted against the request limit: relays to a worker. */
    RELAY,
    /** On a platform thread, counted against the request limit: tokenizes and waits for the engine. */
    GENERATION;

    boolean needsPlatformThread() {
        return this == BLOCKING || this == GENERATION;
    }

    boolean isLimited() {
        return this == RELAY || this == GENERATION;
    }
}
