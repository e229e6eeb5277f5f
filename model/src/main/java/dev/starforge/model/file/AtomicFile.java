package dev.starforge.model.file;

import dev.starforge.model.ModelException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/**
 * Writes a file atomically: to {@code NAME.partial} first, then synced and renamed. If writing fails, an existing file
 * is unchanged.
 */
public final class AtomicFile {
    private AtomicFile() {}

    /** Writes the contents of a file. */
    public interface FileContents {
        void write(FileChannel out) throws IOException;
    }

    public static void write(Path path, FileContents body) {
        Path partial = path.resolveSibling(path.getFileName() + ".partial");
        try {
            try (FileChannel out = FileChannel.open(
                    partial,
                    StandardOpenOption.CREATE,
                    StandardOpenOption.WRITE,
                    StandardOpenOption.TRUNCATE_EXISTING)) {
                body.write(out);
                out.force(true);
            }
            Files.move(partial, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException failure) {
            throw new ModelException(path, "cannot be written: " + failure, failure);
        } finally {
            removeQuietly(partial);
        }
    }

    /** Deletes the partial file, so that a failed write does not use disk space. */
    private static void removeQuietly(Path partial) {
        try {
            Files.deleteIfExists(partial);
        } catch (IOException ignored) {
            // the earlier exception is the one to report
        }
    }

    /** Writes all of {@code data}; a single {@code write} of a channel may be partial. */
    public static void put(WritableByteChannel out, ByteBuffer data) throws IOException {
        while (data.hasRemaining()) {
            out.write(data);
        }
    }
}
