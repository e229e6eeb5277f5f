package dev.starforge.serve.generation;

/** Engine work of one request; a draining worker waits for it. */
sealed interface InFlightWork permits ActiveRequest, ActiveEmbedding {
    void cancel();
}
