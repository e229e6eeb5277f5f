package dev.starforge.train.tune;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.MetricsLog;
import dev.starforge.train.weights.ScratchModel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * A model argument as all commands accept it: a run, one of its checkpoints, an adapter, a model folder or a GGUF file,
 * resolved to the weights to load and the adapter to apply to them.
 *
 * @param model a model folder or a GGUF file
 * @param adapter folder of the adapter, if there is one
 * @param route how the model was found, for messages; empty if the argument is the model itself
 */
public record TunedModel(Path model, Optional<Path> adapter, String route) {
    private static final String EXPECTED =
            "expected a run, a checkpoint, an adapter, a folder with config.json and " + "safetensors, or a GGUF file";

    /**
     * Resolves a path.
     *
     * @param base base model for an adapter; if empty, the base in the adapter's config
     * @param named finds the model with a name; throws a {@link ModelException} if there is none
     */
    public static TunedModel of(Path place, Optional<String> base, Function<String, Path> named) {
        if (!Files.isDirectory(place)) {
            return new TunedModel(place, Optional.empty(), "");
        }
        Optional<Path> ready = TuneState.modelOf(place);
        if (ready.isPresent()) {
            return new TunedModel(ready.get(), Optional.empty(), place + " -> " + ready.get());
        }
        Path found = Checkpoints.resolve(place);
        String route = found.equals(place) ? "" : place + " -> " + checkpoint(place, found);
        if (isAdapter(found)) {
            Path model = baseOf(found, base, named);
            String start = route.isEmpty() ? place.toString() : route;
            return new TunedModel(model, Optional.of(found), start + " -> base " + model + " + adapter");
        }
        if (Files.isRegularFile(found.resolve("config.json"))) {
            return new TunedModel(found, Optional.empty(), route);
        }
        if (Files.exists(place.resolve(MetricsLog.FILE)) || Files.exists(place.resolve("config.yaml"))) {
            throw new TrainException(place + ": this run has no checkpoint yet; `starforge train --out " + place
                    + " --resume` resumes it");
        }
        if (Files.exists(place.resolve("manifest.json"))) {
            throw new TrainException(place
                    + ": is a dataset, not a model; train a model with `starforge train --dataset " + place + "`");
        }
        throw new ModelException(place, EXPECTED);
    }

    /** Loads the model with its adapter. */
    public Model load(ModelFiles files, Scope weights, Precision precision) {
        if (adapter.isEmpty()) {
            return files.load(weights, precision);
        }
        try (LoraAdapter lora = LoraAdapter.open(adapter.get(), weights)) {
            return files.load(weights, precision, lora);
        }
    }

    /**
     * A complete model to train or to apply an adapter to: the path itself, or the best checkpoint of a run that
     * trained all weights.
     */
    public static Path completeModel(Path place) {
        Path found = Files.isDirectory(place) ? Checkpoints.resolve(place) : place;
        if (isAdapter(found)) {
            throw new TrainException(
                    place + ": is an adapter, but a complete model is needed; create one with `starforge merge " + place
                            + " --out MODEL`");
        }
        return found;
    }

    /**
     * The adapter of a run, a checkpoint or a folder.
     *
     * @param instead the command to suggest for a complete model
     */
    public static Path adapterOf(Path place, String instead) {
        Path found = Checkpoints.resolve(place);
        if (isAdapter(found)) {
            return found;
        }
        boolean whole = Files.isRegularFile(found.resolve("config.json"));
        throw new TrainException(place
                + (whole
                        ? ": is a complete model without an adapter, so it needs no base; " + instead
                        : ": has no adapter: expected " + LoraAdapter.CONFIG + " and " + LoraAdapter.WEIGHTS));
    }

    /**
     * The base model of an adapter.
     *
     * @param base as in {@link #of}
     */
    public static Path baseOf(Path adapter, Optional<String> base, Function<String, Path> named) {
        if (base.isPresent()) {
            return completeModel(named.apply(base.get()));
        }
        String own = JsonConfig.read(adapter.resolve(LoraAdapter.CONFIG)).string("base_model_name_or_path");
        if (own.equals(ScratchModel.NAME)) {
            // the folder of a run contains its checkpoints and, for a new model, its base
            return adapter.toAbsolutePath().normalize().resolveSibling("base");
        }
        try {
            return completeModel(named.apply(own));
        } catch (ModelException missing) {
            throw new TrainException(adapter + ": base model not found: " + missing.getMessage(), missing);
        }
    }

    private static boolean isAdapter(Path folder) {
        return Files.isRegularFile(folder.resolve(LoraAdapter.CONFIG));
    }

    private static String checkpoint(Path run, Path found) {
        String name = Stream.of("best", "latest")
                .filter(each -> Checkpoints.target(run, each).isPresent())
                .findFirst()
                .orElseThrow();
        return name + " checkpoint, step " + found.getFileName().toString().replaceAll("\\D", "");
    }
}
