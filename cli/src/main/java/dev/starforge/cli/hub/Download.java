package dev.starforge.cli.hub;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Download of one file of a repository. Bytes go to an incomplete file, which an interrupted download resumes; the file is
 * renamed when its hash matches the hash in the listing of the hub.
 */
final class Download {
    private static final int PIECE = 1 << 18;

    private final Hub hub;
    private final ModelId id;
    private final String commit;
    private final HubFile file;
    private final Path folder;
    private final LongConsumer arrived;
    private volatile long heard = System.nanoTime();
    private volatile @Nullable InputStream body;

    /** @param arrived receives the number of new bytes, negative if bytes were discarded */
    Download(Hub hub, ModelId id, String commit, HubFile file, Path folder, LongConsumer arrived) {
        this.hub = hub;
        this.id = id;
        this.commit = commit;
        this.file = file;
        this.folder = folder;
        this.arrived = arrived;
    }

    /** Closes the connection if the server has stalled; the next attempt resumes. */
    void cutOffIfStalled() {
        InputStream open = body;
        if (open != null && System.nanoTime() - heard > hub.timeouts().stall().toNanos()) {
            try {
                open.close();
            } catch (IOException alreadyGone) {
                return;
            }
        }
    }

    void run() throws IOException {
        Path partial = file.incomplete(folder);
        Files.createDirectories(partial.getParent());
        arrived.accept(Files.exists(partial) ? Files.size(partial) : 0);
        boolean again = false;
        while (true) {
            fetch(partial);
            if (HubFile.isLfsPointer(partial)) {
                Files.delete(partial);
                throw new HubException(
                        file.name() + ": the server sent a Git LFS pointer instead of the file; the hub's storage "
                                + "does not have it, or --endpoint is a plain git server");
            }
            if (file.matches(partial)) {
                Files.move(
                        partial,
                        folder.resolve(file.name()),
                        StandardCopyOption.ATOMIC_MOVE,
                        StandardCopyOption.REPLACE_EXISTING);
                return;
            }
            String got = file.hex(partial);
            arrived.accept(-Files.size(partial));
            Files.delete(partial);
            if (again) {
                throw new HubException(
                        file.name() + ": expected hash " + file.hash().hex() + ", got " + got
                                + " twice; the file was damaged in transfer or changed by a proxy; it was not stored");
            }
            again = true;
        }
    }

    /** Downloads until all bytes are received. */
    private void fetch(Path partial) throws IOException {
        int failures = 0;
        while (true) {
            long before = Files.exists(partial) ? Files.size(partial) : 0;
            if (before == file.size() && Files.exists(partial)) {
                return;
            }
            try {
                if (before > file.size()) {
                    arrived.accept(-before);
                    Files.delete(partial);
                    before = 0;
                }
                attempt(partial, before);
            } catch (IOException failure) {
                long now = Files.exists(partial) ? Files.size(partial) : 0;
                failures = now > before ? 1 : failures + 1; // an attempt that received bytes is not counted
                hub.waitFor(failures, file.name() + " at byte " + now, failure);
            }
        }
    }

    private void attempt(Path partial, long before) throws IOException {
        heard = System.nanoTime();
        try (Hub.Answer answer = hub.open(id, commit, file, before);
                FileChannel out = FileChannel.open(partial, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            long begin = answer.begin();
            if (begin != before && begin != 0) {
                throw new IOException("requested byte " + before + ", but the server started at " + begin);
            }
            if (begin < before) {
                arrived.accept(-before);
            }
            out.truncate(begin).position(begin);
            copy(answer.body(), out);
        } finally {
            body = null;
        }
    }

    private void copy(InputStream in, FileChannel out) throws IOException {
        body = in;
        byte[] piece = new byte[PIECE];
        for (int read = in.read(piece); read >= 0; read = in.read(piece)) {
            heard = System.nanoTime();
            if (out.position() + read > file.size()) {
                throw new HubException(file.name() + ": expected " + file.size()
                        + " bytes, but the server sends more; the file was not stored");
            }
            ByteBuffer bytes = ByteBuffer.wrap(piece, 0, read);
            while (bytes.hasRemaining()) {
                out.write(bytes);
            }
            arrived.accept(read);
        }
        if (out.position() < file.size()) {
            throw new IOException("connection closed at byte " + out.position() + " of " + file.size());
        }
        out.force(true);
    }
}
