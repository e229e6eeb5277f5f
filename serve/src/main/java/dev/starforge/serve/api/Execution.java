package dev.starforge.serve.api;

/** How a route's handler runs. Virtual threads are not preempted: long computation on one delays all others, even health checks. */
public enum Execution {
    /** On the connection's virtual thread: responds from memory, without blocking. */
    INLINE(0),
    /** On a platform thread: may parse large requests or block. */
    BLOCKING(40),
    /** On the connection's virtual thread, counted against the request limit: relays to a worker. */
    RELAY(40),
    /** On a platform thread, counted against the request limit: tokenizes and waits for the engine. */
    GENERATION(112);

    private final int heapBytesPerBodyByte;

    /**
     * @param heapBytesPerBodyByte how much heap a byte of the body takes at most. A JSON tree takes up to 32 bytes ({@code [{},{}]}), and
     *     the tokenizer up to 100, for one word without merges
     */
    Execution(int heapBytesPerBodyByte) {
        this.heapBytesPerBodyByte = heapBytesPerBodyByte;
    }

    boolean needsPlatformThread() {
        return this == BLOCKING || this == GENERATION;
    }

    boolean isLimited() {
        return this == RELAY || this == GENERATION;
    }

    /** The heap that a request with a body of {@code length} bytes takes at most until its response begins. */
    long heapBytes(int length) {
        return (long) heapBytesPerBodyByte * length;
    }
}
