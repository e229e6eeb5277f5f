package dev.starforge.model;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BiFunction;

/** A model as HF lays it out: {@code config.json} beside {@code model.safetensors}. The architecture comes from the config. */
public final class ModelFolder implements AutoCloseable {
    private static final Map<String, BiFunction<Config, Weights, Model>> ARCHITECTURES = new TreeMap<>(Map.of(
            "starcoder2", StarCoder2::new,
            "llama", Llama::new));

    private final Config config;
    private final SafetensorsFile file;

    private ModelFolder(Config config, SafetensorsFile file) {
        this.config = config;
        this.file = file;
    }

    public static ModelFolder open(Path folder) {
        if (!Files.isDirectory(folder)) {
            throw new ModelException(folder, "expected a folder with config.json and model.safetensors");
        }
        Config config = Config.read(folder.resolve("config.json"));
        String architecture = config.text("model_type");
        if (!ARCHITECTURES.containsKey(architecture)) {
            throw config.wrong("model_type", "one of " + String.join(", ", ARCHITECTURES.keySet()));
        }
        return new ModelFolder(config, SafetensorsFile.open(folder.resolve("model.safetensors")));
    }

    /** Loads the model onto the scope's device. */
    public Model load(Scope scope, Precision precision) {
        return load(scope, precision, Adapter.NONE);
    }

    /** Loads the model with an adapter's updates; every update must find its projection. */
    public Model load(Scope scope, Precision precision, LoraAdapter adapter) {
        Adapter updates = adapter::apply;
        Model model = load(scope, precision, updates);
        adapter.requireAllUsed();
        return model;
    }

    private Model load(Scope scope, Precision precision, Adapter adapter) {
        return ARCHITECTURES.get(architecture()).apply(config, new Weights(file, scope, precision, adapter));
    }

    public String architecture() {
        return config.text("model_type");
    }

    /** The tokens that end a text, of which a model may have several. */
    public Set<Integer> endOfText() {
        Path generation = config.path().resolveSibling("generation_config.json");
        Config source = Files.exists(generation) ? Config.read(generation) : config;
        return source.integers("eos_token_id");
    }

    public SafetensorsFile file() {
        return file;
    }

    @Override
    public void close() {
        file.close();
    }
}
