package dev.starforge.train.plan;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.Probe;
import java.util.List;

/**
 * The properties of a machine that settings are adapted to.
 *
 * @param kind cpu, cuda, metal or reference
 * @param memoryBytes memory of the device
 * @param freeBytes available memory; on unified memory the part that the GPU may use
 * @param computes supported activation types, the fastest first, as the device declares
 * @param attention attention kernel, as the device declares
 * @param attentionReason why this kernel was chosen
 */
public record MachineFacts(
        String kind,
        String name,
        long memoryBytes,
        long freeBytes,
        List<DType> computes,
        String attention,
        String attentionReason) {
    /** Share of a small machine's memory that macOS lets the GPU use. */
    private static final double WORKING_SET = 2.0 / 3;

    /** The facts of this machine: the detected device, and the memory that is free now. */
    public static MachineFacts of(String kind, Probe.DetectedDevice found) {
        boolean cpu = kind.equals("cpu") || kind.equals("reference");
        long free = cpu && Machine.freeBytes() > 0
                ? Machine.freeBytes()
                : (long) (found.memoryBytes() * (kind.equals("metal") ? WORKING_SET : 0.9));
        return new MachineFacts(
                kind,
                found.name(),
                found.memoryBytes(),
                free,
                found.computes(),
                found.attention(),
                found.attentionReason());
    }
}
