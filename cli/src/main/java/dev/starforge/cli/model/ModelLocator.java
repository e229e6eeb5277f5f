package dev.starforge.cli.model;

import dev.starforge.cli.hub.ModelId;
import dev.starforge.cli.hub.ModelStore;
import dev.starforge.model.ModelException;
import dev.starforge.train.tune.TunedModel;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Finds models by path, or by name in the store and the HF cache. */
public final class ModelLocator {
    private ModelLocator() {}

    /** Finds a complete model: the named one, or the best checkpoint of a run that trained all weights. */
    public static Path find(String name) {
        Path place = find(name, "Expected a folder with config.json and safetensors, a GGUF file, or `scratch`");
        return TunedModel.completeModel(place);
    }

    /** Finds a model; {@code expected} ends the error message if there is none. */
    public static Path find(String name, String expected) {
        return find(name, expected, Environment.system().store());
    }

    public static Path find(String name, String expected, ModelStore store) {
        Path path = path(name);
        if (Files.exists(path)) {
            return path;
        }
        return named(name, store).orElseThrow(() -> {
            List<String> searched =
                    new ArrayList<>(List.of(path.toAbsolutePath().toString()));
            store.places(name).forEach(place -> searched.add(place.toString()));
            String pull = ModelId.parse(name).isPresent() ? "`starforge pull " + name + "` downloads it. " : "";
            return new ModelException(
                    path, "model not found; searched " + String.join(", ", searched) + ". " + pull + expected);
        });
    }

    /** The embedded model, or one of the store or the HF cache; empty if none has this name. */
    public static Optional<Path> named(String name, ModelStore store) {
        return name.equals(EmbeddedModel.NAME) ? Optional.of(EmbeddedModel.file()) : store.find(name);
    }

    private static Path path(String name) {
        try {
            return Path.of(name);
        } catch (InvalidPathException none) {
            throw new ModelException(Path.of(""), "expected a path or a model name, got " + name, none);
        }
    }
}
