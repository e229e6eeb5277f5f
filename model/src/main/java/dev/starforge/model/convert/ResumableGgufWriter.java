package dev.starforge.model.convert;

import dev.starforge.model.ModelException;
import dev.starforge.model.file.AtomicFile;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufValue;
import dev.starforge.model.gguf.GgufWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * Writes a GGUF file and resumes after the process was killed. Tensors go to {@code FILE.incomplete}. A journal beside
 * it has a line for each tensor on the disk, written after the tensor's data is synced. The first line of the journal
 * is a hash of the header and the inputs; if it differs, writing starts over. The complete file is renamed to its final
 * name.
 */
final class ResumableGgufWriter {
    private final Path path;
    private final Path partial;
    private final Path journal;
    private final Map<String, GgufValue> metadata;
    private final List<GgufWriter.GgufEntry> entries;
    private final byte[] head;
    private final String identity;
    private final long betweenSyncs;

    /**
     * A file to be written.
     *
     * @param inputs description of the inputs; if it changes, writing starts over
     * @param betweenSyncs bytes between two syncs: at most this much is written again after a crash
     */
    ResumableGgufWriter(
            Path path,
            Map<String, GgufValue> metadata,
            List<GgufWriter.GgufEntry> entries,
            String inputs,
            long betweenSyncs) {
        this.path = path;
        this.partial = path.resolveSibling(path.getFileName() + ".incomplete");
        this.journal = path.resolveSibling(path.getFileName() + ".incomplete.journal");
        this.metadata = metadata;
        this.entries = entries;
        this.head = GgufWriter.head(path, metadata, entries);
        this.betweenSyncs = betweenSyncs;
        this.identity = hash(head, inputs.getBytes(StandardCharsets.UTF_8));
    }

    private static String hash(byte[]... parts) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (byte[] part : parts) {
                digest.update(part);
            }
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException missing) {
            throw new IllegalStateException(missing); // every JDK has SHA-256
        }
    }

    /**
     * Writes the tensors that are not in the file yet.
     *
     * @param line returns the journal line for a tensor that was just written, without line breaks
     * @return the lines of all tensors, in their order
     */
    List<String> write(Function<GgufWriter.GgufEntry, String> line, GgufQuantizer.QuantizeProgress progress) {
        try (FileChannel out = FileChannel.open(partial, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                FileLock lock = out.tryLock()) {
            if (lock == null) {
                throw new ModelException(partial, "another process is writing this file");
            }
            List<String> lines = resume(out);
            try (FileChannel notes = FileChannel.open(
                    journal, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.APPEND)) {
                write(out, notes, lines, line, progress);
            }
            Files.move(partial, path, StandardCopyOption.ATOMIC_MOVE);
            Files.delete(journal);
            return lines;
        } catch (IOException failure) {
            throw new ModelException(
                    path, "cannot be written: " + failure + "; run the same command again to resume", failure);
        }
    }

    /** Returns the journal lines of the tensors already written and positions the channel after them. */
    private List<String> resume(FileChannel out) throws IOException {
        List<String> lines = journal();
        List<Long> ends = ends();
        boolean known = !lines.isEmpty() && lines.getFirst().equals(identity) && lines.size() <= entries.size() + 1;
        if (known && out.size() >= ends.get(lines.size() - 1)) {
            out.truncate(ends.get(lines.size() - 1)).position(ends.get(lines.size() - 1));
            return new ArrayList<>(lines.subList(1, lines.size()));
        }
        requireRoom(ends.getLast() - out.size());
        out.truncate(0);
        AtomicFile.put(out, ByteBuffer.wrap(head));
        out.force(true);
        Files.writeString(journal, identity + "\n");
        return new ArrayList<>();
    }

    /** Returns the complete lines of the journal and removes an incomplete last line. */
    private List<String> journal() throws IOException {
        if (!Files.exists(journal)) {
            return List.of();
        }
        String text = Files.readString(journal);
        String whole = text.substring(0, text.lastIndexOf('\n') + 1);
        if (!whole.equals(text)) {
            Files.writeString(journal, whole);
        }
        return whole.lines().toList();
    }

    /** Returns the end offsets of the header and of each tensor. */
    private List<Long> ends() {
        int alignment = GgufWriter.alignment(path, metadata);
        List<Long> ends = new ArrayList<>(List.of((long) head.length));
        for (GgufWriter.GgufEntry entry : entries) {
            ends.add(GgufFile.align(ends.getLast(), alignment) + entry.bytes());
        }
        return ends;
    }

    private void requireRoom(long bytes) throws IOException {
        long room = Files.getFileStore(partial).getUsableSpace();
        if (bytes > room) {
            Files.deleteIfExists(partial);
            throw new ModelException(
                    path, "needs " + (bytes >> 20) + " MB of disk space, but only " + (room >> 20) + " MB are free");
        }
    }

    private void write(
            FileChannel out,
            FileChannel notes,
            List<String> lines,
            Function<GgufWriter.GgufEntry, String> line,
            GgufQuantizer.QuantizeProgress progress)
            throws IOException {
        int alignment = GgufWriter.alignment(path, metadata);
        long total = entries.stream().mapToLong(GgufWriter.GgufEntry::bytes).sum();
        long done = entries.subList(0, lines.size()).stream()
                .mapToLong(GgufWriter.GgufEntry::bytes)
                .sum();
        StringBuilder unsaid = new StringBuilder();
        long synced = out.position();
        for (GgufWriter.GgufEntry entry : entries.subList(lines.size(), entries.size())) {
            GgufWriter.pad(out, alignment);
            GgufWriter.write(path, out, entry);
            lines.add(line.apply(entry));
            unsaid.append(lines.getLast()).append('\n');
            done += entry.bytes();
            if (out.position() - synced >= betweenSyncs) {
                synced = sync(out, notes, unsaid);
            }
            progress.at(entry.name(), done, total);
        }
        GgufWriter.pad(out, alignment);
        sync(out, notes, unsaid);
    }

    private static long sync(FileChannel out, FileChannel notes, StringBuilder unsaid) throws IOException {
        out.force(true);
        AtomicFile.put(notes, ByteBuffer.wrap(unsaid.toString().getBytes(StandardCharsets.UTF_8)));
        notes.force(true);
        unsaid.setLength(0);
        return out.position();
    }
}
