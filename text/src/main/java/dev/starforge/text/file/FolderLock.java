package dev.starforge.text.file;

import dev.starforge.text.FileException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * An exclusive lock on a folder. The operating system releases it when the process ends. The lock file is not deleted,
 * because deleting it could break the lock of another writer. It names the process that took the lock last.
 */
public record FolderLock(FileChannel channel) implements AutoCloseable {
    public static final String FILE = ".lock";

    /**
     * The locked position, beyond the content of the file, which must stay readable on systems with mandatory locks.
     */
    private static final long LOCK_OFFSET = Long.MAX_VALUE - 1;

    /**
     * Locks an existing folder.
     *
     * @param holder name of the program, shown to processes that find the folder locked
     * @throws FileException if this or another process holds the lock
     */
    public static FolderLock take(Path folder, String holder) throws IOException {
        FileChannel channel = lockedFolder(folder);
        String text = holder + ", process " + ProcessHandle.current().pid() + "\n";
        try {
            channel.truncate(0).write(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)), 0);
        } catch (IOException failure) {
            channel.close();
            throw failure;
        }
        return new FolderLock(channel);
    }

    /** Clears the name of the holder after a run that wrote nothing. */
    public void forget() throws IOException {
        channel.truncate(0);
    }

    /**
     * Checks that the lock of a folder is free; writes nothing.
     *
     * @throws FileException if the lock is held
     */
    public static void requireFree(Path folder) throws IOException {
        if (Files.isRegularFile(folder.resolve(FILE))) {
            lockedFolder(folder).close();
        }
    }

    private static FileChannel lockedFolder(Path folder) throws IOException {
        return locked(folder.resolve(FILE)).orElseThrow(() -> busy(folder, holder(folder)));
    }

    /** Opens and locks a file; empty if this or another process holds its lock. */
    static Optional<FileChannel> locked(Path file) throws IOException {
        FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        try {
            FileLock lock = channel.tryLock(LOCK_OFFSET, 1, false);
            if (lock != null) {
                return Optional.of(channel);
            }
        } catch (OverlappingFileLockException here) {
            channel.close();
            return Optional.empty();
        }
        channel.close();
        return Optional.empty();
    }

    /** The last holder of a folder's lock; empty if there was none. */
    public static String holder(Path folder) {
        return text(folder.resolve(FILE));
    }

    static String text(Path file) {
        try {
            return Files.isRegularFile(file) ? Files.readString(file).strip() : "";
        } catch (IOException unreadable) {
            return "";
        }
    }

    /** The folder and its parents that do not exist yet. */
    public static List<Path> missing(Path folder) {
        return Stream.iterate(
                        folder.toAbsolutePath().normalize(),
                        each -> each != null && !Files.exists(each, LinkOption.NOFOLLOW_LINKS),
                        Path::getParent)
                .toList();
    }

    /**
     * Removes a folder that this run created and that contains only the lock file and what keeps git out.
     *
     * @param made the result of {@link #missing} before the folder was created
     */
    public static void removeIfAlone(List<Path> made) throws IOException {
        if (made.isEmpty() || !Files.isDirectory(made.getFirst())) {
            return;
        }
        Path folder = made.getFirst();
        try (Stream<Path> inside = Files.list(folder)) {
            if (inside.map(path -> path.getFileName().toString())
                    .anyMatch(name -> !name.equals(FILE) && !name.equals(GitIgnore.FILE))) {
                return;
            }
        }
        Files.deleteIfExists(folder.resolve(FILE));
        Files.deleteIfExists(folder.resolve(GitIgnore.FILE));
        for (Path each : made) {
            try {
                Files.deleteIfExists(each);
            } catch (DirectoryNotEmptyException used) {
                return; // another process wrote to it
            }
        }
    }

    static FileException busy(Path output, String holder) {
        return new FileException(
                output,
                "is being written by another run" + (holder.isEmpty() ? "" : " (" + holder + ")")
                        + ": wait for it, stop it, or use another "
                        + (Files.isDirectory(output) ? "folder" : "name"));
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
