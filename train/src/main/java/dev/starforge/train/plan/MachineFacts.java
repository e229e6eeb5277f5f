package dev.starforge.train.plan;

import dev.starforge.tensor.device.Probe;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What settings are adapted to.
 *
 * @param kind cpu, cuda, metal or reference
 * @param memoryBytes what the device has
 * @param freeBytes what of it can be had; on unified memory what the GPU may use
 * @param capability of a CUDA device, 86 for 8.6; 0 elsewhere
 * @param generation of an Apple chip, 1 for M1; 0 elsewhere
 * @param computes16 whether the backend has kernels that compute in 16 bits
 */
public record MachineFacts(
        String kind,
        String name,
        long memoryBytes,
        long freeBytes,
        int capability,
        int generation,
        boolean computes16) {
    private static final Pattern CAPABILITY = Pattern.compile("compute capability (\\d+)\\.(\\d+)");
    private static final Pattern APPLE = Pattern.compile("Apple M(\\d+)");

    /** macOS lets the GPU have two thirds of a small machine's memory. */
    private static final double WORKING_SET = 0.66;

    /** The machine this is: what a backend found, and what is free now. */
    public static MachineFacts of(String kind, Probe.Found found) {
        Matcher capability = CAPABILITY.matcher(found.detail());
        Matcher apple = APPLE.matcher(found.name());
        boolean cpu = kind.equals("cpu") || kind.equals("reference");
        long free = cpu && Machine.freeBytes() > 0
                ? Machine.freeBytes()
                : (long) (found.memoryBytes() * (kind.equals("metal") ? WORKING_SET : 0.9));
        return new MachineFacts(
                kind,
                found.name(),
                found.memoryBytes(),
                free,
                capability.find()
                        ? 10 * Integer.parseInt(capability.group(1)) + Integer.parseInt(capability.group(2))
                        : 0,
                apple.find() ? Integer.parseInt(apple.group(1)) : 0,
                false);
    }

    public boolean hasBf16() {
        return switch (kind) {
            case "cuda" -> capability >= 80;
            case "metal" -> generation >= 3;
            default -> false;
        };
    }
}
