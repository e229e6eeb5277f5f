package dev.starforge.train.plan;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Process and memory statistics of the operating system, where available. */
public final class Machine {
    private Machine() {}

    /** CPU time of this process in seconds; -1 if unknown. */
    public static double cpuSeconds() {
        return ProcessHandle.current()
                .info()
                .totalCpuDuration()
                .map(duration -> duration.toNanos() * 1e-9)
                .orElse(-1.0);
    }

    /** Resident bytes of this process; 0 if unknown. */
    public static long residentBytes() {
        return kibibytes(Path.of("/proc/self/status"), "VmRSS:") << 10;
    }

    /** Bytes available to processes; 0 if unknown. */
    static long freeBytes() {
        long free = kibibytes(Path.of("/proc/meminfo"), "MemAvailable:") << 10;
        return Math.min(free, containerBytes(Path.of("/sys/fs/cgroup")));
    }

    /**
     * Bytes left of a container's limit, or a very large number without a limit. The page cache counts as free, since
     * it can be evicted.
     */
    static long containerBytes(Path group) {
        long limit = number(group.resolve("memory.max"), "");
        long used = number(group.resolve("memory.current"), "");
        long cached = number(group.resolve("memory.stat"), "inactive_file ");
        return limit < 0 || used < 0 ? Long.MAX_VALUE : Math.max(1, limit - used + Math.max(0, cached));
    }

    /** The number on the line with a prefix; -1 if there is none. */
    private static long number(Path file, String beginning) {
        if (!Files.isReadable(file)) {
            return -1;
        }
        try {
            return Files.readAllLines(file).stream()
                    .filter(line -> line.startsWith(beginning))
                    .map(line -> line.substring(beginning.length()).strip())
                    .filter(text -> text.matches("[0-9]{1,18}"))
                    .mapToLong(Long::parseLong)
                    .findFirst()
                    .orElse(-1);
        } catch (IOException unknown) {
            return -1;
        }
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
