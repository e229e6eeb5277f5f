package dev.starforge.train.plan;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.Probe;
import java.util.List;

/**
 * What settings are adapted to.
 *
 * @param kind cpu, cuda, metal or reference
 * @param memoryBytes what the device has
 * @param freeBytes what of it can be had; on unified memory what the GPU may use
 * @param computes the types that activations may have, first the one it is fastest in, as the device declares
 * @param attention its attention kernel, as the device declares
 * @param attentionReason why that one
 */
public record MachineFacts(
        String kind,
        String name,
        long memoryBytes,
        long freeBytes,
        List<DType> computes,
        String attention,
        String attentionReason) {
    /** macOS lets the GPU have two thirds of a small machine's memory. */
    private static final double WORKING_SET = 2.0 / 3;

    /** The machine this is: what a backend found, and what is free now. */
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
