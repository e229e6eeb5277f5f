package dev.starforge.serve.engine;

/**
 * Snapshot of an engine.
 *
 * @param alive false after a failure
 * @param running sequences in the batch
 * @param waiting sequences in the queue
 * @param freeSlots sequences that can still join the batch
 * @param kvUsage share of the KV blocks in use, 0 to 1
 * @param memoryBytes device memory in use
 * @param prefixQueries total prompt tokens looked up in the prefix cache
 * @param prefixHits total prompt tokens found in the prefix cache
 * @param preemptions total sequences that were preempted and recomputed
 */
public record EngineStatus(
        boolean alive,
        int running,
        int waiting,
        int freeSlots,
        double kvUsage,
        long memoryBytes,
        long prefixQueries,
        long prefixHits,
        long preemptions) {}
