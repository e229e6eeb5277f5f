package dev.starforge.cpu.core;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * How many threads are worth having: one for each physical core, since two threads of a core share its multipliers and
 * its way to memory, and on machines with two kinds of cores only the fast ones, since every operation waits for its
 * slowest chunk. Never more than the JVM may use. Where the machine does not tell, what the JVM may use.
 *
 * @param cpus where Linux describes its processors, and no other system does
 * @param answer what a command of macOS prints; throws where there is no such command
 * @param available processors the JVM may use
 */
public record Cores(Path cpus, Function<List<String>, String> answer, int available) {
    private static final List<String> FAST_CORES = List.of("sysctl", "-n", "hw.perflevel0.physicalcpu");

    public static Cores ofMachine() {
        return new Cores(
                Path.of("/sys/devices/system/cpu"),
                Cores::run,
                Runtime.getRuntime().availableProcessors());
    }

    public int count() {
        try {
            int physical = Files.isDirectory(cpus) ? siblings() : fast();
            return physical < 1 ? available : Math.min(physical, available);
        } catch (IOException | RuntimeException untold) {
            return available;
        }
    }

    private int fast() {
        return Integer.parseInt(answer.apply(FAST_CORES).strip());
    }

    /** Processors of one core have the same list of siblings. */
    private int siblings() throws IOException {
        Set<String> cores = new HashSet<>();
        try (Stream<Path> entries = Files.list(cpus)) {
            for (Path cpu : entries.toList()) {
                Path list = cpu.resolve("topology").resolve("thread_siblings_list");
                if (cpu.getFileName().toString().matches("cpu[0-9]+") && Files.exists(list)) {
                    cores.add(Files.readString(list).strip());
                }
            }
        }
        return cores.size();
    }

    private static String run(List<String> command) {
        try {
            Process process = new ProcessBuilder(command)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            process.getOutputStream().close();
            return new String(process.getInputStream().readAllBytes());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
