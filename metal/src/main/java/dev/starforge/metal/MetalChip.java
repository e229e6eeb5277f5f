package dev.starforge.metal;

import dev.starforge.tensor.DType;
import dev.starforge.tensor.device.Probe;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What the system says of a GPU.
 *
 * @param architecture such as applegpu_g13s; the last letter is that of the size: g base and Pro, s Max, d Ultra; empty before
 *     macOS 14
 * @param family MTLGPUFamily: 1007 M1, 1008 M2, 1009 M3 and M4, 1010 M5; 0 if it is not one of Apple's
 * @param system version of macOS, such as 14.5
 * @param memoryBytes memory of the machine
 * @param workingSetBytes how much of it the GPU may use without affecting its performance
 * @param largestBufferBytes maxBufferLength
 * @param threadgroupBytes maxThreadgroupMemoryLength
 */
record MetalChip(
        String name,
        String architecture,
        long family,
        String system,
        long memoryBytes,
        long workingSetBytes,
        long largestBufferBytes,
        long threadgroupBytes,
        boolean unified) {
    /** The oldest version of macOS with built-in kernel arguments at program scope (MSL 3.1). */
    static final int OLDEST_SYSTEM = 14;

    private static final long NEWEST_FAMILY = 1010;

    /** The first family that computes in bf16; older ones emulate it. */
    private static final long NATIVE_BF16 = 1009;

    private static final Pattern VERSION = Pattern.compile("\\d+(\\.\\d+)*");
    private static final int CORES_BASE = 8;
    private static final int CORES_MAX = 32;
    private static final int CORES_ULTRA = 64;

    /** Call this within an {@link AutoreleasePool}. */
    static MetalChip of(MemorySegment device) {
        MemorySegment process = Foundation.processInfo();
        String system = version(Foundation.UTF8String(Foundation.operatingSystemVersionString(process)));
        return new MetalChip(
                Foundation.UTF8String(MetalDriver.name(device)),
                major(system) < OLDEST_SYSTEM ? "" : Foundation.UTF8String(MetalDriver.name(architecture(device))),
                family(device),
                system,
                Foundation.physicalMemory(process),
                MetalDriver.recommendedMaxWorkingSetSize(device),
                MetalDriver.maxBufferLength(device),
                MetalDriver.maxThreadgroupMemoryLength(device),
                MetalDriver.hasUnifiedMemory(device));
    }

    /** Older systems than {@link #OLDEST_SYSTEM} would end the process, since their devices do not know this message. */
    private static MemorySegment architecture(MemorySegment device) {
        return ObjcRuntime.required(MetalDriver.architecture(device), "architecture");
    }

    private static long family(MemorySegment device) {
        for (long family = NEWEST_FAMILY; family >= MetalDriver.FAMILY_APPLE7; family--) {
            if (MetalDriver.supportsFamily(device, family)) {
                return family;
            }
        }
        return 0;
    }

    /** The number of "Version 14.5 (Build 23F79)", whose words depend on the language of the user; 0 if it has none. */
    static String version(String text) {
        Matcher found = VERSION.matcher(text);
        return found.find() ? found.group() : "0";
    }

    int systemMajor() {
        return major(system);
    }

    private static int major(String version) {
        return Integer.parseInt(version.split("\\.")[0]);
    }

    /** Why this backend cannot use the GPU; empty if it can. */
    Optional<String> trouble() {
        if (systemMajor() < OLDEST_SYSTEM) {
            return Optional.of("macOS " + system + " is too old: Metal needs macOS " + OLDEST_SYSTEM + " or newer");
        }
        return family == 0
                ? Optional.of(name + " is not supported: Metal needs Apple silicon (M1 or newer), not an Intel Mac")
                : Optional.empty();
    }

    /** GPU cores by the size of the chip, since Metal does not report them; grid-stride launches depend on it. */
    int cores() {
        return switch (architecture.isEmpty() ? ' ' : architecture.charAt(architecture.length() - 1)) {
            case 's' -> CORES_MAX;
            case 'd' -> CORES_ULTRA;
            default -> CORES_BASE;
        };
    }

    Probe.DetectedDevice describe(int index) {
        return new Probe.DetectedDevice(
                index,
                name,
                memoryBytes,
                unified,
                family >= NATIVE_BF16
                        ? List.of(DType.BF16, DType.F16, DType.F32)
                        : List.of(DType.F16, DType.F32, DType.BF16),
                "plain",
                "the portable kernels; none for Metal alone yet",
                "%s, Apple%d, macOS %s, working set %d MiB, buffers up to %d MiB; kernels not run on hardware"
                        .formatted(
                                architecture,
                                family - MetalDriver.FAMILY_APPLE7 + 7,
                                system,
                                workingSetBytes >> 20,
                                largestBufferBytes >> 20));
    }
}
