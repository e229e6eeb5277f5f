package dev.starforge.serve.pool;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;

/** Keeps logs from growing for ever: a long one is copied aside and emptied, while its worker goes on appending to it. */
final class WorkerLogs {
    private static final long LONGEST = 16 << 20;

    private WorkerLogs() {}

    static void rotate(List<Path> logs) throws IOException {
        for (Path log : logs) {
            if (Files.exists(log) && Files.size(log) > LONGEST) {
                Files.copy(log, log.resolveSibling(log.getFileName() + ".1"), StandardCopyOption.REPLACE_EXISTING);
                FileChannel.open(log, StandardOpenOption.WRITE).truncate(0).close();
            }
        }
    }
}
