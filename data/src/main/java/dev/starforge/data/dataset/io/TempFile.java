package dev.starforge.data.dataset.io;

import dev.starforge.data.DatasetException;
import dev.starforge.data.git.ByteBuilder;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/** Buffers the output of a worker until its turn to be written: in memory while it is small, then in a temporary file. */
public final class TempFile {
    private static final int IN_MEMORY = 4 << 20;
    private static final AtomicLong FILES = new AtomicLong();

    private final Path folder;
    private final List<byte[]> chunks = new ArrayList<>();
    private @Nullable Path file;
    private int held;

    public TempFile(Path folder) {
        this.folder = folder;
    }

    void append(ByteBuilder bytes) {
        chunks.add(bytes.copy());
        held += bytes.size();
        if (held > IN_MEMORY) {
            try {
                if (file == null) {
                    file = Files.createFile(folder.resolve("lines-" + FILES.getAndIncrement() + ".part"));
                }
                try (OutputStream out = Files.newOutputStream(file, StandardOpenOption.APPEND)) {
                    drain(out);
                }
            } catch (IOException failure) {
                throw new DatasetException(folder, "cannot be written: " + failure.getMessage(), failure);
            }
        }
    }

    private void drain(OutputStream out) throws IOException {
        for (byte[] chunk : chunks) {
            out.write(chunk);
        }
        chunks.clear();
        held = 0;
    }

    /** Writes everything to {@code out} and removes the temporary file. */
    public void writeTo(OutputStream out) {
        try {
            if (file != null) {
                Files.copy(file, out);
                Files.delete(file);
            }
            drain(out);
        } catch (IOException failure) {
            throw new DatasetException(folder, "cannot be written: " + failure.getMessage(), failure);
        }
    }
}
