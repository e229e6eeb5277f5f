package dev.starforge.cli.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalLong;

/**
 * What the system counts as this process's memory, now and at most: everything, not just what tensors take. Linux says so
 * in a file; elsewhere both are empty.
 */
public record ProcessMemory(OptionalLong resident, OptionalLong peak) {
    private static final Path STATUS = Path.of("/proc/self/status");

    public static ProcessMemory now() {
        try {
            return Files.isReadable(STATUS) ? of(Files.readAllLines(STATUS)) : of(List.of());
        } catch (IOException unreadable) {
            return of(List.of());
        }
    }

    public static ProcessMemory of(List<String> status) {
        return new ProcessMemory(kilobytes(status, "VmRSS:"), kilobytes(status, "VmHWM:"));
    }

    private static OptionalLong kilobytes(List<String> status, String key) {
        return status.stream()
                .filter(line -> line.startsWith(key) && line.endsWith(" kB"))
                .mapToLong(line -> 1024
                        * Long.parseLong(
                                line.substring(key.length(), line.length() - 3).strip()))
                .findFirst();
    }
}
