package dev.starforge.serve.pool.supervise;

/**
 * A worker that a request could go to.
 *
 * @param incarnation this start of it: what an earlier process had cached is gone
 * @param load requests under way
 */
public record WorkerCandidate(String id, String incarnation, int load) {}
