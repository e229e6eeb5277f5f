package dev.starforge.serve.pool.supervise;

/**
 * A worker that can serve a request.
 *
 * @param incarnation identifies one start of the worker; a restart empties its cache
 * @param load requests in flight
 */
public record WorkerCandidate(String id, String incarnation, int load) {}
