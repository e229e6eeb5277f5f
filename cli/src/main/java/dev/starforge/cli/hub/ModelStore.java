package dev.starforge.cli.hub;

import dev.starforge.model.gguf.GgufFile;
import dev.starforge.text.ErrorMessage;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The models on this machine by name. {@code OWNER/NAME[@REVISION]} is a folder of the store; users can add folders and {@code
 * .gguf} files, which are found without their extension. The HF cache is read, but never written: HF's tools own its layout.
 *
 * @param root of the store
 * @param caches of HF's tools; they may not exist
 */
public record ModelStore(Path root, List<Path> caches) {
    /** A model in the store. */
    public record Kept(String name, Path path, long bytes, boolean complete) {}

    /** The folder that a model is pulled to. */
    public Path place(ModelId id) {
        return root.resolve(id.toString());
    }

    /** The paths that are searched for a name, in order. */
    public List<Path> places(String name) {
        List<Path> places = new ArrayList<>(List.of(root.resolve(name)));
        ModelId.parse(name).ifPresent(id -> caches.forEach(cache -> places.add(repository(cache, id))));
        return places;
    }

    private static Path repository(Path cache, ModelId id) {
        return cache.resolve("models--" + id.repo().replace("/", "--"));
    }

    /** The folder or file of a model, if it exists. */
    public Optional<Path> find(String name) {
        if (!isPlain(name)) {
            return Optional.empty();
        }
        Path own = root.resolve(name);
        Path file = root.resolve(name + ".gguf");
        if (Files.exists(own)) {
            return Optional.of(model(own));
        }
        return Files.isRegularFile(file)
                ? Optional.of(file)
                : ModelId.parse(name).flatMap(this::cached);
    }

    /** Rejects names that point outside the store. */
    private boolean isPlain(String name) {
        return !name.isEmpty()
                && Path.of(name).getNameCount() <= 2
                && root.resolve(name).normalize().startsWith(root.normalize())
                && !root.resolve(name).normalize().equals(root.normalize());
    }

    /** The snapshot of a revision in one of HF's caches. */
    public Optional<Path> cached(ModelId id) {
        for (Path cache : caches) {
            Path repository = repository(cache, id);
            Path reference = repository.resolve("refs").resolve(id.revision());
            try {
                String commit = Files.isRegularFile(reference)
                        ? Files.readString(reference).strip()
                        : id.revision();
                Path snapshot = repository.resolve("snapshots").resolve(commit);
                if (Files.isDirectory(snapshot)) {
                    return Optional.of(model(snapshot));
                }
            } catch (IOException failure) {
                throw new HubException(reference + ": cannot be read: " + ErrorMessage.of(failure), failure);
            }
        }
        return Optional.empty();
    }

    /** Returns the GGUF file of a folder that has exactly one and no config.json. */
    private static Path model(Path folder) {
        if (!Files.isDirectory(folder) || Files.exists(folder.resolve("config.json"))) {
            return folder;
        }
        try (Stream<Path> files = Files.list(folder)) {
            List<Path> found = files.filter(ModelStore::isModelFile).toList();
            return found.size() == 1 ? found.getFirst() : folder;
        } catch (IOException failure) {
            throw new HubException(folder + ": cannot be read: " + ErrorMessage.of(failure), failure);
        }
    }

    /** The models of the store by name, without those of the HF cache. */
    public List<Kept> list() {
        List<Kept> kept = new ArrayList<>();
        for (Path first : children(root)) {
            if (Files.isRegularFile(first)) {
                if (isModelFile(first)) {
                    kept.add(kept(first));
                }
            } else if (isModel(first)) {
                kept.add(kept(first));
            } else {
                children(first).stream()
                        .filter(each -> Files.isDirectory(each) || isModelFile(each))
                        .forEach(each -> kept.add(kept(each)));
            }
        }
        return kept;
    }

    private static boolean isModelFile(Path file) {
        return file.toString().endsWith(".gguf") || GgufFile.isGguf(file);
    }

    private static boolean isModel(Path folder) {
        return Files.exists(folder.resolve("config.json")) || Files.exists(folder.resolve(PulledModel.FILE));
    }

    private Kept kept(Path path) {
        String name = root.relativize(path).toString().replace('\\', '/');
        List<Path> files = Files.isDirectory(path) ? tree(path) : List.of(path);
        long bytes = files.stream().mapToLong(ModelStore::size).sum();
        boolean complete = files.stream().noneMatch(file -> file.toString().endsWith(".incomplete"));
        return new Kept(name, path, bytes, complete);
    }

    /** Removes a model, and the folder of its owner if it is empty; returns the bytes freed. */
    public long remove(String name) throws IOException {
        Path path = Files.exists(root.resolve(name)) ? root.resolve(name) : root.resolve(name + ".gguf");
        Kept kept = list().stream()
                .filter(each -> each.path().equals(path))
                .findFirst()
                .orElseThrow(() -> new HubException(name + ": model not found in " + root + "; see `starforge list`"));
        if (Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
            try (Stream<Path> tree = Files.walk(path)) {
                for (Path each : tree.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(each);
                }
            }
        } else {
            Files.delete(path);
        }
        Path owner = path.getParent();
        if (owner != null && !owner.equals(root) && children(owner).isEmpty()) {
            Files.delete(owner);
        }
        return kept.bytes();
    }

    private static List<Path> children(Path folder) {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(folder)) {
            return files.sorted().toList();
        } catch (IOException failure) {
            throw new HubException(folder + ": cannot be read: " + ErrorMessage.of(failure), failure);
        }
    }

    private static List<Path> tree(Path folder) {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(Files::isRegularFile).toList();
        } catch (IOException failure) {
            throw new HubException(folder + ": cannot be read: " + ErrorMessage.of(failure), failure);
        } catch (UncheckedIOException failure) {
            IOException cause = Objects.requireNonNull(failure.getCause());
            throw new HubException(folder + ": cannot be read: " + ErrorMessage.of(cause), failure);
        }
    }

    private static long size(Path file) {
        try {
            return Files.size(file);
        } catch (IOException failure) {
            throw new HubException(file + ": cannot be read: " + ErrorMessage.of(failure), failure);
        }
    }
}
