package dev.starforge.serve.generation;

/** What a request has the engine do, and what a worker that drains waits for. */
sealed interface InFlightWork permits ActiveRequest, ActiveEmbedding {
    /** Ends it now. */
    void cancel();
}
