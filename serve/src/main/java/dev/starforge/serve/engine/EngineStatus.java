package dev.starforge.serve.engine;

/**
 * An engine at a moment.
 *
 * @param alive whether it still computes; a dead one answers nothing any more
 * @param running sequences in the next step
 * @param waiting sequences in the queue
 * @param freeSlots sequences that could still join the next step
 * @param kvUsage share of the KV blocks in use, 0 to 1
 * @param memoryBytes of the device in use
 * @param prefixQueries tokens of prompts that were looked up in the prefix cache, ever
 * @param prefixHits of these the ones that were there
 * @param preemptions sequences that lost their KV blocks to others and were computed again, ever
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
