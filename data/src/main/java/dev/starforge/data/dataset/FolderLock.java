package dev.starforge.data.dataset;

import dev.starforge.data.DatasetException;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
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

    /** A folder and those around it, as far as they are not there: what making it would make. */
    static List<Path> missing(Path folder) {
        return Stream.iterate(
                        folder.toAbsolutePath().normalize(),
                        each -> each != null && !Files.exists(each, LinkOption.NOFOLLOW_LINKS),
                        Path::getParent)
                .toList();
    }

    /**
     * Removes a folder that was made and holds nothing but its lock: a first build that came to nothing leaves nothing.
     *
     * @param made what was {@link #missing} before
     */
    static void removeIfAlone(List<Path> made) throws IOException {
        if (made.isEmpty() || !Files.isDirectory(made.getFirst())) {
            return;
        }
        Path folder = made.getFirst();
        try (Stream<Path> inside = Files.list(folder)) {
            if (inside.anyMatch(path -> !path.getFileName().toString().equals(FILE))) {
                return;
            }
        }
        Files.deleteIfExists(folder.resolve(FILE));
        for (Path each : made) {
            try {
                Files.deleteIfExists(each);
            } catch (DirectoryNotEmptyException used) {
                return; // by somebody else, by now
            }
        }
    }

    private static DatasetException busy(Path folder) {
        return new DatasetException(folder, "is being written by another run: wait for it, or use another folder");
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
