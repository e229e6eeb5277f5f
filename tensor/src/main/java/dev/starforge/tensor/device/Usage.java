package dev.starforge.tensor.device;

/**
 * How busy a processor is, as its driver or the system says; for people and metrics, never for a decision.
 *
 * @param utilization share of the time or of the cores in use, 0 to 1; -1 where unknown
 * @param memoryBytes in use on it by all processes; -1 where unknown
 */
public record Usage(double utilization, long memoryBytes) {
    public static final Usage UNKNOWN = new Usage(-1, -1);
}
