package dev.starforge.train.plan;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the operating system says of this process and its memory, where it says so. */
public final class Machine {
    private Machine() {}

    /** Processor time of this process so far; -1 where unknown. */
    public static double cpuSeconds() {
        return ProcessHandle.current()
                .info()
                .totalCpuDuration()
                .map(duration -> duration.toNanos() * 1e-9)
                .orElse(-1.0);
    }

    /** Bytes of this process in memory; 0 where unknown. */
    public static long residentBytes() {
        return kibibytes(Path.of("/proc/self/status"), "VmRSS:") << 10;
    }

    /** Bytes that processes can still get; 0 where unknown. */
    static long freeBytes() {
        return kibibytes(Path.of("/proc/meminfo"), "MemAvailable:") << 10;
    }

    private static long kibibytes(Path file, String name) {
        if (!Files.isReadable(file)) {
            return 0;
        }
        try {
            for (String line : Files.readAllLines(file)) {
                if (line.startsWith(name)) {
                    return Long.parseLong(line.replaceAll("[^0-9]", ""));
                }
            }
            return 0;
        } catch (IOException unknown) {
            return 0;
        }
    }
}
