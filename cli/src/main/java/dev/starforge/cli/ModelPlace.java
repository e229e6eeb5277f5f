package dev.starforge.cli;

import dev.starforge.model.ModelException;
import dev.starforge.train.run.TunedModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Where a model that was named is: a path, or an id whose files are in an HF cache. */
final class ModelPlace {
    private ModelPlace() {}

    /** A model with all its weights: what was named, or the best state of a run that trained every weight. */
    static Path find(String name) {
        Path place = find(name, "A folder with config.json and safetensors, a .gguf file, or `scratch` will do");
        return TunedModel.whole(place);
    }

    /** The same; {@code expected} is a sentence on what else could be named. */
    static Path find(String name, String expected) {
        Path path = path(name);
        if (Files.exists(path)) {
            return path;
        }
        if (name.equals(EmbeddedModel.NAME)) {
            return EmbeddedModel.file();
        }
        List<String> searched = new ArrayList<>(List.of(path.toAbsolutePath().toString()));
        for (Path hub : hubs()) {
            Path repository = hub.resolve("models--" + name.replace("/", "--"));
            searched.add(repository.toString());
            Path main = repository.resolve("refs").resolve("main");
            try {
                if (Files.isRegularFile(main)) {
                    Path snapshot = repository
                            .resolve("snapshots")
                            .resolve(Files.readString(main).strip());
                    if (Files.isDirectory(snapshot)) {
                        return snapshot;
                    }
                }
            } catch (IOException failure) {
                throw new ModelException(main, "cannot be read: " + failure, failure);
            }
        }
        throw new ModelException(
                path, "there is no such model here; looked for " + String.join(", ", searched) + ". " + expected);
    }

    private static Path path(String name) {
        try {
            return Path.of(name);
        } catch (InvalidPathException none) {
            throw new ModelException(Path.of(""), "expected a path or an id, got " + name, none);
        }
    }

    private static List<Path> hubs() {
        List<Path> hubs = new ArrayList<>();
        if (System.getenv("HF_HUB_CACHE") != null) {
            hubs.add(Path.of(System.getenv("HF_HUB_CACHE")));
        }
        if (System.getenv("HF_HOME") != null) {
            hubs.add(Path.of(System.getenv("HF_HOME"), "hub"));
        }
        hubs.add(Path.of(System.getProperty("user.home"), ".cache", "huggingface", "hub"));
        return hubs;
    }
}
