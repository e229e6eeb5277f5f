package dev.starforge.train.merge;

import dev.starforge.text.file.OutputLock;
import dev.starforge.train.checkpoint.Checkpoints;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * A file or folder that is written under a partial name and renamed by {@link #publish} once it is complete and
 * verified. It is removed if it is not published. A lock keeps other runs with the same output away.
 */
final class PartialOutput implements AutoCloseable {
    private final Path out;
    private final Path partial;
    private final OutputLock lock;

    PartialOutput(Path out, ModelFormat format) throws IOException {
        this.out = out;
        lock = OutputLock.take(out, "starforge");
        partial = out.resolveSibling(".partial-" + out.getFileName() + (format == ModelFormat.GGUF ? ".gguf" : ""));
        Checkpoints.remove(partial);
    }

    Path path() {
        return partial;
    }

    void publish() throws IOException {
        Files.move(partial, out, StandardCopyOption.ATOMIC_MOVE);
    }

    @Override
    public void close() throws IOException {
        try (lock) {
            Checkpoints.remove(partial);
        }
    }
}
