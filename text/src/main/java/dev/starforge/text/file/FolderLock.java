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
import java.util.stream.Stream;

/**
 * One writer at a time in a folder. The lock is the system's and ends with the process, however it ends; the file it is on
 * stays, since whoever removed it could remove it from under another writer. The file says who took it last.
 */
public record FolderLock(FileChannel channel) implements AutoCloseable {
    public static final String FILE = ".lock";

    /** Far behind the text, which others must be able to read where a lock keeps them from it. */
    private static final long PLACE = Long.MAX_VALUE - 1;

    /**
     * Takes the lock of a folder that exists.
     *
     * @param holder what takes it, for whoever comes second
     * @throws FileException when another process, or another part of this one, holds it
     */
    public static FolderLock take(Path folder, String holder) throws IOException {
        FileChannel channel = locked(folder);
        String text = holder + ", process " + ProcessHandle.current().pid() + "\n";
        try {
            channel.truncate(0).write(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)), 0);
        } catch (IOException failure) {
            channel.close();
            throw failure;
        }
        return new FolderLock(channel);
    }

    /** Takes back that anybody was here: what came to nothing has no claim on what others put there. */
    public void forget() throws IOException {
        channel.truncate(0);
    }

    /**
     * Makes sure that nobody holds the lock of a folder now; writes nothing.
     *
     * @throws FileException when somebody does
     */
    public static void requireFree(Path folder) throws IOException {
        if (Files.isRegularFile(folder.resolve(FILE))) {
            locked(folder).close();
        }
    }

    private static FileChannel locked(Path folder) throws IOException {
        FileChannel channel =
                FileChannel.open(folder.resolve(FILE), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        try {
            FileLock lock = channel.tryLock(PLACE, 1, false);
            if (lock != null) {
                return channel;
            }
        } catch (OverlappingFileLockException here) {
            channel.close();
            throw busy(folder);
        }
        channel.close();
        throw busy(folder);
    }

    /** Who took the lock of a folder last; empty when nobody has. */
    public static String holder(Path folder) {
        try {
            Path file = folder.resolve(FILE);
            return Files.isRegularFile(file) ? Files.readString(file).strip() : "";
        } catch (IOException unreadable) {
            return "";
        }
    }

    /** A folder and those around it, as far as they are not there: what making it would make. */
    public static List<Path> missing(Path folder) {
        return Stream.iterate(
                        folder.toAbsolutePath().normalize(),
                        each -> each != null && !Files.exists(each, LinkOption.NOFOLLOW_LINKS),
                        Path::getParent)
                .toList();
    }

    /**
     * Removes a folder that was made and holds nothing but its lock: a first run that came to nothing leaves nothing.
     *
     * @param made what was {@link #missing} before
     */
    public static void removeIfAlone(List<Path> made) throws IOException {
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

    private static FileException busy(Path folder) {
        String holder = holder(folder);
        return new FileException(
                folder,
                "is being written by another run" + (holder.isEmpty() ? "" : " (" + holder + ")")
                        + ": wait for it, stop it, or use another folder");
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
