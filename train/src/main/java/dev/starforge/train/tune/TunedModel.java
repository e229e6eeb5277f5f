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
 * A model argument as all commands accept it: a run, one of its checkpoints, an adapter, a model folder or a GGUF file, resolved to the
 * weights to load and the adapter to put on them.
 *
 * @param model a model folder or a GGUF file
 * @param adapter a folder with an adapter, where there is one
 * @param route how it was found, for a person; empty where the model is what was named
 */
public record TunedModel(Path model, Optional<Path> adapter, String route) {
    private static final String EXPECTED =
            "expected a run, a checkpoint, an adapter, a folder with config.json and " + "safetensors, or a .gguf file";

    /**
     * Resolves a path.
     *
     * @param base what to put an adapter on; where it is empty, what the adapter names
     * @param named where the model of a name is; throws a {@link ModelException} where it is nowhere
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
            throw new TrainException(place + ": this run has no checkpoint yet; `starforge train --output " + place
                    + " --resume` resumes it");
        }
        if (Files.exists(place.resolve("manifest.json"))) {
            throw new TrainException(
                    place + ": is a dataset, not a model; `starforge train --dataset " + place + "` trains one on it");
        }
        throw new ModelException(place, EXPECTED);
    }

    /** The model on a device, with its adapter. */
    public Model load(ModelFiles files, Scope weights, Precision precision) {
        if (adapter.isEmpty()) {
            return files.load(weights, precision);
        }
        try (LoraAdapter lora = LoraAdapter.open(adapter.get(), weights)) {
            return files.load(weights, precision, lora);
        }
    }

    /** A model to put an adapter on, or to train: what was named, or the best state of a run that trained every weight. */
    public static Path whole(Path place) {
        Path found = Files.isDirectory(place) ? Checkpoints.resolve(place) : place;
        if (isAdapter(found)) {
            throw new TrainException(place + ": is an adapter, so nothing can be put on it; `starforge merge " + place
                    + " --out MODEL` makes a model of it");
        }
        return found;
    }

    /**
     * The adapter that a run, a checkpoint or a folder holds.
     *
     * @param instead the command for a whole model
     */
    public static Path adapterOf(Path place, String instead) {
        Path found = Checkpoints.resolve(place);
        if (isAdapter(found)) {
            return found;
        }
        boolean whole = Files.isRegularFile(found.resolve("config.json"));
        throw new TrainException(place
                + (whole
                        ? ": every weight of this one was trained or merged, so it has no adapter and needs no base; "
                                + instead
                        : ": there is no adapter here: expected " + LoraAdapter.CONFIG + " and "
                                + LoraAdapter.WEIGHTS));
    }

    /**
     * The base model of an adapter.
     *
     * @param base as for {@link #of}
     */
    public static Path baseOf(Path adapter, Optional<String> base, Function<String, Path> named) {
        if (base.isPresent()) {
            return whole(named.apply(base.get()));
        }
        String own = JsonConfig.read(adapter.resolve(LoraAdapter.CONFIG)).string("base_model_name_or_path");
        if (own.equals(ScratchModel.NAME)) {
            // a checkpoint is in its run, as is the new model that the run began with
            return adapter.toAbsolutePath().normalize().resolveSibling("base");
        }
        try {
            return whole(named.apply(own));
        } catch (ModelException missing) {
            throw new TrainException(adapter + ": its base was not found: " + missing.getMessage(), missing);
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
