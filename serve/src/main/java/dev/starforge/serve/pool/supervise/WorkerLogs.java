package dev.starforge.serve.pool.supervise;

import dev.starforge.text.file.PrivateFiles;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Rotates the log files of workers: a large log is copied and truncated while its worker appends to it, and only the newest logs of stopped
 * workers are kept.
 */
final class WorkerLogs {
    static final String FOLDER = "logs";
    static final String SUFFIX = ".log";
    static final long MAX_BYTES = 16 << 20;
    static final int KEPT = 50;

    private static final String OLDER = ".1";
    private static final String ERROR = "starforge: ";
    private static final int TAIL = 4096;

    private WorkerLogs() {}

    /** @param live ids of workers whose logs are kept */
    static void rotate(Path state, Set<String> live) throws IOException {
        List<Path> logs;
        try (Stream<Path> files = Files.list(state.resolve(FOLDER))) {
            logs = files.filter(file -> file.toString().endsWith(SUFFIX)).toList();
        }
        for (Path log : logs) {
            if (Files.size(log) > MAX_BYTES) {
                Files.copy(log, older(log), StandardCopyOption.REPLACE_EXISTING);
                PrivateFiles.restrict(older(log));
                FileChannel.open(log, StandardOpenOption.WRITE).truncate(0).close();
            }
        }
        List<Path> oldest = logs.stream()
                .filter(log -> !live.contains(log.getFileName().toString().replace(SUFFIX, "")))
                .sorted(Comparator.comparingLong(log -> log.toFile().lastModified()))
                .toList();
        for (Path log : oldest.subList(0, Math.max(0, oldest.size() - KEPT))) {
            Files.delete(log);
            Files.deleteIfExists(older(log));
        }
    }

    private static Path older(Path log) {
        return log.resolveSibling(log.getFileName() + OLDER);
    }

    static long length(Path log) {
        return log.toFile().length();
    }

    /**
     * The last error message in the log after an offset, in parentheses; empty if there is none. If the log is shorter than the offset, it
     * was truncated, and all of it is searched.
     */
    static String lastError(Path log, long from) {
        try (FileChannel channel = FileChannel.open(log, StandardOpenOption.READ);
                InputStream in = Channels.newInputStream(channel)) {
            long size = channel.size();
            channel.position(Math.max(from > size ? 0 : from, size - TAIL));
            return new String(in.readAllBytes(), StandardCharsets.UTF_8)
                    .lines()
                    .filter(line -> line.startsWith(ERROR))
                    .reduce((_, last) -> last)
                    .map(line -> " (" + line.substring(ERROR.length()) + ")")
                    .orElse("");
        } catch (IOException e) {
            return "";
        }
    }
}
