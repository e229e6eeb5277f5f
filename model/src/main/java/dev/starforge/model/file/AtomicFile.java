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

/** A file that appears under its name when all of it is on the disk; until then, and after a failure, what was there stays. */
public final class AtomicFile {
    private AtomicFile() {}

    /** Writes what a file holds. */
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

    /** What is left of a file that could not be written; a full disk must not stay full. */
    private static void removeQuietly(Path partial) {
        try {
            Files.deleteIfExists(partial);
        } catch (IOException left) {
            // the failure before it is the one to tell
        }
    }

    /** A channel may take less than it is given. */
    public static void put(WritableByteChannel out, ByteBuffer data) throws IOException {
        while (data.hasRemaining()) {
            out.write(data);
        }
    }
}
