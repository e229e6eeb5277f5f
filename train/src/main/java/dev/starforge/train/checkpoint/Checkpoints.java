package dev.starforge.train.checkpoint;

import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.text.FileException;
import dev.starforge.text.file.Hashes;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.TrainException;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.stream.Stream;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * The {@code checkpoint-N} folders of a run. A checkpoint is written under a temporary name, every file is forced to
 * disk, the list of hashes is written last, and the folder is renamed. So a folder with the final name is always
 * complete. {@code latest} and {@code best} are symbolic links, replaced atomically by a rename; on file systems
 * without links they are files that contain the name. Incomplete folders are removed at the next start.
 */
public final class Checkpoints {
    public static final String MARKER = "complete.json";
    private static final String PREFIX = "checkpoint-";
    public static final String STATE = "state.json";
    public static final String PARTIAL = ".partial-";
    private static final String AMENDED = ".amended-";
    private static final long SLACK = 4L << 20;

    private final Path run;
    private final Disk disk;
    private final int limit;

    /** The free disk space. */
    @FunctionalInterface
    public interface Disk {
        long free(Path folder) throws IOException;
    }

    /** The actual disk. */
    public static final Disk REAL = folder -> Files.getFileStore(folder).getUsableSpace();

    public Checkpoints(Path run, Disk disk, int limit) {
        this.run = run;
        this.disk = disk;
        this.limit = limit;
    }

    /** Removes the remains of an interrupted save and restores a checkpoint whose amendment was interrupted. */
    public void clean() {
        for (Path path : entries()) {
            String name = path.getFileName().toString();
            if (name.startsWith(PARTIAL)) {
                remove(path);
            } else if (name.startsWith(AMENDED)) {
                Path checkpoint = run.resolve(name.substring(AMENDED.length()));
                if (Files.exists(checkpoint)) {
                    remove(path);
                } else {
                    move(path, checkpoint);
                }
            }
        }
    }

    private static void move(Path from, Path to) {
        try {
            Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException failure) {
            throw new TrainException(to + ": cannot be written: " + failure, failure);
        }
    }

    /** Returns true if a complete checkpoint of this step exists. */
    public boolean has(long step) {
        Path checkpoint = run.resolve(PREFIX + step);
        return Files.isDirectory(checkpoint) && defect(checkpoint).isEmpty();
    }

    /**
     * Replaces some files of a checkpoint, such as the state after an evaluation, and keeps the others. The new folder
     * replaces the old one by two renames; {@link #clean} undoes the first if the second did not happen.
     */
    public Path amend(long step, Consumer<Path> writer) {
        Path checkpoint = run.resolve(PREFIX + step);
        Path partial = run.resolve(PARTIAL + PREFIX + step);
        Path old = run.resolve(AMENDED + PREFIX + step);
        try {
            remove(partial);
            Files.createDirectories(partial);
            writer.accept(partial);
            JsonNode known = Jackson.JSON.readTree(checkpoint.resolve(MARKER)).path("sha256");
            ObjectNode hashes = Jackson.object();
            for (String name : known.propertyNames()) {
                if (Files.exists(partial.resolve(name))) {
                    force(partial.resolve(name));
                    hashes.put(name, Hashes.sha256(partial.resolve(name)));
                } else {
                    link(checkpoint.resolve(name), partial.resolve(name));
                    hashes.put(name, known.path(name).asString());
                }
            }
            writeMarker(partial, step, hashes);
            Files.move(checkpoint, old, StandardCopyOption.ATOMIC_MOVE);
            Files.move(partial, checkpoint, StandardCopyOption.ATOMIC_MOVE);
            forceFolder(run);
            point("latest", checkpoint);
            remove(old);
            return checkpoint;
        } catch (IOException failure) {
            throw new TrainException(checkpoint + ": cannot be written: " + failure, failure);
        } finally {
            remove(partial);
        }
    }

    /** Writes the list of hashes. It must be last, because a folder with this file is complete. */
    private static void writeMarker(Path folder, long step, ObjectNode hashes) throws IOException {
        ObjectNode marker = Jackson.object().put("step", step).set("sha256", hashes);
        Files.writeString(folder.resolve(MARKER), Jackson.indented(marker) + "\n");
        force(folder.resolve(MARKER));
        forceFolder(folder);
    }

    /** Hard-links a file, or copies it if the file system has no links. */
    private static void link(Path from, Path to) throws IOException {
        try {
            Files.createLink(to, from);
        } catch (UnsupportedOperationException | FileSystemException unsupported) {
            Files.copy(from, to);
            force(to);
        }
    }

    /** Saves the checkpoint of a step; {@code writer} writes the files into the given folder. */
    public Path save(long step, long bytes, Consumer<Path> writer) {
        Path checkpoint = run.resolve(PREFIX + step);
        Path partial = run.resolve(PARTIAL + PREFIX + step);
        try {
            remove(checkpoint);
            long free = disk.free(run);
            if (free < bytes + SLACK) {
                throw new TrainException(checkpoint + ": cannot be written: it needs about " + (bytes + SLACK)
                        + " bytes, the disk has " + free + " free");
            }
            remove(partial);
            Files.createDirectories(partial);
            writer.accept(partial);
            ObjectNode hashes = Jackson.object();
            for (Path file : files(partial)) {
                force(file);
                hashes.put(file.getFileName().toString(), Hashes.sha256(file));
            }
            writeMarker(partial, step, hashes);
            Files.move(partial, checkpoint, StandardCopyOption.ATOMIC_MOVE);
            forceFolder(run);
            point("latest", checkpoint);
            return checkpoint;
        } catch (IOException failure) {
            throw new TrainException(checkpoint + ": cannot be written: " + failure, failure);
        } finally {
            remove(partial);
        }
    }

    public void markBest(Path checkpoint) {
        try {
            point("best", checkpoint);
        } catch (IOException failure) {
            throw new TrainException(run.resolve("best") + ": cannot be written: " + failure, failure);
        }
    }

    /**
     * Removes the oldest checkpoints beyond the limit, but never those that {@code best} or {@code latest} point to.
     * Checkpoints with missing files do not count and are kept. Hashes are not checked, since that would read every
     * checkpoint at each save.
     */
    public void prune() {
        List<Path> complete =
                all().stream().filter(path -> missingFile(path).isEmpty()).toList();
        List<Path> kept = Stream.of("best", "latest")
                .flatMap(name -> target(run, name).stream())
                .toList();
        int excess = complete.size() - limit;
        for (Path path : complete) {
            if (excess > 0 && !kept.contains(path)) {
                remove(path);
                excess--;
            }
        }
    }

    private void point(String name, Path checkpoint) throws IOException {
        Path link = run.resolve(name);
        Path fresh = run.resolve(PARTIAL + name);
        Files.deleteIfExists(fresh);
        try {
            Files.createSymbolicLink(fresh, checkpoint.getFileName());
        } catch (UnsupportedOperationException | FileSystemException noLinks) {
            Files.writeString(fresh, checkpoint.getFileName().toString());
            force(fresh);
        }
        try {
            Files.move(fresh, link, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (AtomicMoveNotSupportedException noRename) {
            throw new IOException(link + ": this file system cannot rename over a file", noRename);
        }
        forceFolder(run);
    }

    /** Returns the checkpoint that {@code latest} or {@code best} of a run points to. */
    public static Optional<Path> target(Path run, String name) {
        Path link = run.resolve(name);
        try {
            if (Files.isSymbolicLink(link)) {
                return Optional.of(run.resolve(Files.readSymbolicLink(link)));
            }
            return Files.isRegularFile(link)
                    ? Optional.of(run.resolve(Files.readString(link).strip()))
                    : Optional.empty();
        } catch (IOException failure) {
            throw new TrainException(link + ": cannot be read: " + failure, failure);
        }
    }

    /**
     * Resolves a folder to one with a checkpoint's files: the folder itself, or the target of a run's {@code best} or
     * else {@code latest}. Accepts adapters of other programs unchanged.
     *
     * @throws TrainException if the folder does not exist, or is a damaged checkpoint of a run
     */
    public static Path resolve(Path folder) {
        if (!Files.isDirectory(folder)) {
            throw new TrainException(folder + ": does not exist; expected a run, a checkpoint or an adapter");
        }
        // another program may have written a file called latest into a model folder
        boolean isModel = Files.isRegularFile(folder.resolve("config.json"))
                || Files.isRegularFile(folder.resolve(LoraAdapter.CONFIG));
        Optional<Path> named = isModel
                ? Optional.empty()
                : Stream.of("best", "latest")
                        .flatMap(name -> target(folder, name).stream())
                        .findFirst();
        Path found = named.orElse(folder);
        boolean ours = isCheckpoint(found) || Files.exists(found.resolve(STATE));
        if (named.isPresent() || ours) {
            defect(found).ifPresent(defect -> {
                throw new TrainException(found + ": is damaged: " + defect);
            });
        }
        return found;
    }

    /** Returns true if a folder is a complete checkpoint of a run. */
    public static boolean isCheckpoint(Path folder) {
        return Files.exists(folder.resolve(MARKER));
    }

    /** Returns the newest complete checkpoint. Reports newer damaged ones to {@code damaged} and keeps them. */
    public Optional<Path> newest(Consumer<String> damaged) {
        List<Path> all = new ArrayList<>(all()).reversed();
        for (Path path : all) {
            Optional<String> defect = defect(path);
            if (defect.isEmpty()) {
                return Optional.of(path);
            }
            damaged.accept(path + ": is damaged: " + defect.get());
        }
        return Optional.empty();
    }

    /** Returns the defect of a checkpoint, if any. */
    public static Optional<String> defect(Path checkpoint) {
        return defect(checkpoint, true);
    }

    /** Returns what is missing from a checkpoint, if anything. */
    private static Optional<String> missingFile(Path checkpoint) {
        return defect(checkpoint, false);
    }

    private static Optional<String> defect(Path checkpoint, boolean contents) {
        Path marker = checkpoint.resolve(MARKER);
        try {
            if (!Files.isRegularFile(marker)) {
                return Optional.of("it has no " + MARKER);
            }
            JsonNode hashes = Jackson.JSON.readTree(Files.readString(marker)).path("sha256");
            if (hashes.isEmpty()) {
                return Optional.of(MARKER + " lists no files");
            }
            for (String name : hashes.propertyNames()) {
                Path file = checkpoint.resolve(name);
                if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)) {
                    return Optional.of(name + " is missing");
                }
                if (contents && !Hashes.sha256(file).equals(hashes.path(name).asString(""))) {
                    return Optional.of(name + " is not what was written");
                }
            }
            return Optional.empty();
        } catch (IOException | JacksonException | FileException failure) {
            return Optional.of(MARKER + " cannot be read: " + failure.getMessage());
        }
    }

    /** All checkpoints with a final name, oldest first. */
    public List<Path> all() {
        return entries().stream()
                .filter(path -> path.getFileName().toString().matches(PREFIX + "\\d{1,18}") && Files.isDirectory(path))
                .sorted(Comparator.comparingLong(Checkpoints::number))
                .toList();
    }

    private static long number(Path checkpoint) {
        return Long.parseLong(checkpoint.getFileName().toString().substring(PREFIX.length()));
    }

    private List<Path> entries() {
        if (!Files.isDirectory(run)) {
            return List.of();
        }
        try (Stream<Path> entries = Files.list(run)) {
            return entries.sorted().toList();
        } catch (IOException failure) {
            throw new TrainException(run + ": cannot be read: " + failure, failure);
        }
    }

    private static List<Path> files(Path folder) throws IOException {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.sorted().toList();
        }
    }

    private static void force(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            channel.force(true);
        }
    }

    /** Forces a folder's entries to disk. Windows can neither open folders for this nor needs it. */
    private static void forceFolder(Path folder) throws IOException {
        if (folder.getFileSystem().supportedFileAttributeViews().contains("posix")) {
            try (FileChannel channel = FileChannel.open(folder, StandardOpenOption.READ)) {
                channel.force(true);
            }
        }
    }

    /** Removes a file or a folder recursively; does nothing if it does not exist. */
    public static void remove(Path path) {
        if (!Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
            return;
        }
        try (Stream<Path> tree = Files.walk(path)) {
            for (Path each : tree.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(each);
            }
        } catch (IOException failure) {
            throw new TrainException(path + ": cannot be removed: " + failure, failure);
        }
    }

    /** Replaces a small file atomically. */
    public static void writeAtomically(Path file, String text) {
        Path partial = file.resolveSibling(PARTIAL + file.getFileName());
        try {
            Files.writeString(partial, text, StandardCharsets.UTF_8);
            force(partial);
            Files.move(partial, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException failure) {
            throw new TrainException(file + ": cannot be written: " + failure, failure);
        }
    }
}
