package dev.starforge.tensor.device;

/**
 * Load of a processor as its driver or the system reports it, for display and metrics only.
 *
 * @param utilization share of the time or of the cores in use, 0 to 1; -1 where unknown
 * @param memoryBytes in use by all processes; -1 where unknown
 */
public record Usage(double utilization, long memoryBytes) {
    public static final Usage UNKNOWN = new Usage(-1, -1);
}
