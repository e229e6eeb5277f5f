package dev.starforge.train.merge;

import dev.starforge.train.checkpoint.Checkpoints;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * A file or folder that gets its name only once it is complete and verified: it is written beside it under a partial name,
 * renamed by {@link #publish}, and removed where that did not happen.
 */
final class PartialOutput implements AutoCloseable {
    private final Path out;
    private final Path partial;

    PartialOutput(Path out, ModelFormat format) {
        this.out = out;
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
    public void close() {
        Checkpoints.remove(partial);
    }
}
