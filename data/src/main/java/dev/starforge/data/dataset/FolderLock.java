package dev.starforge.data.dataset;

import dev.starforge.data.DatasetException;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.stream.Stream;

/**
 * One run at a time in a folder. The lock is the system's and ends with the process, however it ends; the empty file it is
 * on stays, since whoever removed it could remove it from under another run.
 */
record FolderLock(FileChannel channel) implements AutoCloseable {
    static final String FILE = ".lock";

    static FolderLock take(Path folder) throws IOException {
        FileChannel channel =
                FileChannel.open(folder.resolve(FILE), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        try {
            FileLock lock = channel.tryLock();
            if (lock != null) {
                return new FolderLock(channel);
            }
        } catch (OverlappingFileLockException here) {
            channel.close();
            throw busy(folder);
        }
        channel.close();
        throw busy(folder);
    }

    /** Removes a folder that holds nothing but its lock: a first build that came to nothing leaves nothing. */
    static void removeIfAlone(Path folder) throws IOException {
        try (Stream<Path> inside = Files.list(folder)) {
            if (inside.anyMatch(path -> !path.getFileName().toString().equals(FILE))) {
                return;
            }
        }
        Files.deleteIfExists(folder.resolve(FILE));
        Files.deleteIfExists(folder);
    }

    private static DatasetException busy(Path folder) {
        return new DatasetException(folder, "is being written by another run: wait for it, or use another folder");
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
