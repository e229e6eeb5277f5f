package dev.starforge.cli.process;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalLong;

/** Resident memory of this process, current and peak. Empty on systems other than Linux. */
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
