package dev.starforge.text.file;

import dev.starforge.text.FileException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;

/**
 * An exclusive lock on an output that does not exist yet, so that of several runs that write it at the same time one
 * succeeds and the others fail before they write anything. The lock is a file beside the output, {@code .NAME.lock},
 * which names the process that holds it and is deleted with the lock.
 */
public final class OutputLock implements AutoCloseable {
    private final Path file;
    private final FileChannel channel;

    private OutputLock(Path file, FileChannel channel) {
        this.file = file;
        this.channel = channel;
    }

    /**
     * Locks an output.
     *
     * @param holder name of the program, shown to processes that find the output locked
     * @throws FileException if this or another process holds the lock
     */
    public static OutputLock take(Path out, String holder) throws IOException {
        Path file = out.resolveSibling("." + out.getFileName() + ".lock");
        String text = holder + ", process " + ProcessHandle.current().pid() + "\n" + UUID.randomUUID() + "\n";
        while (true) {
            FileChannel channel = FolderLock.locked(file).orElseThrow(() -> FolderLock.busy(out, holder(file)));
            try {
                channel.truncate(0).write(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)), 0);
                // a file that its holder deleted after this run opened it locks nothing
                if (FolderLock.text(file).equals(text.strip())) {
                    return new OutputLock(file, channel);
                }
            } catch (IOException e) {
                channel.close();
                throw e;
            }
            channel.close();
        }
    }

    private static String holder(Path file) {
        return FolderLock.text(file).lines().findFirst().orElse("");
    }

    @Override
    public void close() throws IOException {
        try (channel) {
            Files.deleteIfExists(file);
        }
    }
}
