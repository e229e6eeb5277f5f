package dev.starforge.train.weights;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.Model;
import dev.starforge.model.Parameter;
import dev.starforge.model.Quantization;
import dev.starforge.model.convert.LoraMerger;
import dev.starforge.model.file.Safetensors;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.model.lora.LoraConfig;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;

/**
 * A model and its trained parameters: an adapter, or all weights. The precision of frozen weights matters only to the
 * loader.
 */
public sealed interface TrainableModel extends AutoCloseable {
    /** The scope of the weights. */
    Scope scope();

    /** Bytes of the weights reserved on the device. */
    default long weightBytes() {
        return scope().reservedBytes();
    }

    /**
     * Loads the model with the trained parameters that the settings select: a new adapter, one to continue from, or all
     * weights.
     */
    static TrainableModel of(
            RunConfig config,
            ModelFiles files,
            Path model,
            Device device,
            Precision precision,
            Consumer<String> notes) {
        if (!config.get(Keys.LORA)) {
            return Full.load(files, model, device);
        }
        Lora lora = Lora.load(config, files, device, precision);
        if (!config.get(Keys.ADAPTER).isEmpty()) {
            Path from = Checkpoints.resolve(Path.of(config.get(Keys.ADAPTER)));
            lora.restore(from);
            Quantization before = LoraAdapter.trainedOn(from);
            if (!before.equals(lora.quantization())) {
                notes.accept("the adapter was trained on weights quantized to " + before + " and continues on "
                        + lora.quantization());
            }
        }
        return lora;
    }

    /** The adapter config of the settings. */
    static LoraConfig lora(RunConfig config, String architecture) {
        List<String> targets = config.get(Keys.TARGETS);
        boolean automatic = targets.equals(List.of("auto"));
        return new LoraConfig(
                config.get(Keys.RANK),
                config.get(Keys.ALPHA),
                config.get(Keys.DROPOUT),
                automatic ? LoraConfig.automatic(architecture) : targets,
                !automatic,
                config.get(Keys.RSLORA),
                config.get(Keys.DORA));
    }

    Model model();

    Map<String, Tensor> parameters();

    /** Saves the parameters in a common format: a PEFT adapter, or a HF model folder. */
    void save(Path folder);

    /** Restores the parameters from a saved folder. */
    void restore(Path folder);

    @Override
    void close();

    /** Checks the names and shapes of all tensors in a model's files and returns its properties. Reads no weights. */
    static Model.ModelInfo shapes(ModelFiles files, Device device) {
        Scope shapes = new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope();
        return files.load(shapes, Precision.FLOAT32).info();
    }

    /** Copies a tensor's bytes from a file to the device in chunks. */
    private static void fill(Safetensors file, String name, Tensor tensor, Device device) {
        SafetensorsFile.SafetensorsTensor stored = file.tensor(name);
        if (!stored.shape().equals(tensor.shape())
                || !stored.dtype().equals(tensor.dtype().name())) {
            throw new TrainException(file.path() + ": tensor " + name + ": expected " + tensor.spec() + ", got "
                    + stored.dtype() + stored.shape());
        }
        int width = tensor.dtype().bytes();
        int piece = 1 << 20;
        long size = tensor.shape().size();
        for (long at = 0; at < size; at += piece) {
            int count = (int) Math.min(piece, size - at);
            ByteBuffer bytes = ByteBuffer.allocateDirect(count * width);
            file.read(stored, at * width, bytes);
            device.write(tensor.view(at, Shape.of(count)), bytes.rewind());
        }
    }

    /** Restores named tensors from one file, which must not contain others. */
    static void restore(Path path, String prefix, Map<String, Tensor> tensors, Device device) {
        try (SafetensorsFile file = SafetensorsFile.open(path)) {
            Set<String> unused = new TreeSet<>(file.tensors().keySet());
            tensors.keySet().forEach(name -> unused.remove(prefix + name));
            if (!unused.isEmpty()) {
                throw new TrainException(path + ": with these settings the model has no "
                        + String.join(", ", unused.stream().limit(4).toList()));
            }
            tensors.forEach((name, tensor) -> fill(file, prefix + name, tensor, device));
        }
    }

    /** A frozen model with an adapter. */
    record Lora(
            Model model, LoraAdapter adapter, LoraConfig settings, String base, Quantization quantization, Scope scope)
            implements TrainableModel {
        private static final String PREFIX = "base_model.model.";

        /** Loads the base of the settings with a new adapter. */
        public static Lora load(RunConfig config, ModelFiles files, Device device, Precision precision) {
            return load(
                    files,
                    config.get(Keys.MODEL),
                    config.quantization(),
                    lora(config, files.architecture()),
                    config.get(Keys.SEED),
                    device,
                    precision);
        }

        public static Lora load(
                ModelFiles files,
                String base,
                Quantization quantization,
                LoraConfig settings,
                long seed,
                Device device,
                Precision precision) {
            Scope scope = new Scope(device);
            try {
                LoraAdapter adapter = LoraAdapter.create(settings, seed, scope);
                Model model = files.quantized(quantization).load(scope, precision, adapter);
                return new Lora(model, adapter, settings, base, quantization, scope);
            } catch (RuntimeException failure) {
                scope.close();
                throw failure;
            }
        }

        @Override
        public Map<String, Tensor> parameters() {
            return adapter.parameters();
        }

        @Override
        public void save(Path folder) {
            LoraAdapter.save(folder, settings, base, quantization, parameters(), Device.of(scope));
        }

        @Override
        public void restore(Path folder) {
            JsonConfig stored = JsonConfig.read(folder.resolve(LoraAdapter.CONFIG));
            require(stored, "r", settings.rank(), stored.size("r"));
            require(stored, "lora_alpha", settings.alpha(), stored.number("lora_alpha"));
            require(stored, "use_rslora", settings.rankStabilized(), stored.bool("use_rslora", false));
            require(stored, "use_dora", settings.dora(), stored.bool("use_dora", false));
            for (String key : List.of("rank_pattern", "alpha_pattern")) {
                require(stored, key, true, stored.isUnset(key));
            }
            TrainableModel.restore(folder.resolve(LoraAdapter.WEIGHTS), PREFIX, parameters(), Device.of(scope));
        }

        private static void require(JsonConfig stored, String key, Object expected, Object actual) {
            if (!expected.equals(actual)) {
                throw new TrainException(stored.path() + ": " + key
                        + (key.endsWith("_pattern")
                                ? ": is set; an adapter to continue from has one rank and one alpha"
                                : ": expected " + expected + " as in the settings, got " + actual));
            }
        }

        @Override
        public void close() {
            scope.close();
        }
    }

    /** Full fine-tuning: all weights are trained, in float32. */
    record Full(Model model, List<Parameter> parts, Path base, Scope scope) implements TrainableModel {
        private static final long SHARD = 4L << 30;

        public static void requireFolder(Path base) {
            if (!Files.isDirectory(base)) {
                throw new TrainException(base + ": training all weights requires a folder with safetensors; "
                        + "set quantization.lora_enabled to train an adapter");
            }
        }

        public static Full load(ModelFiles files, Path base, Device device) {
            requireFolder(base);
            Scope scope = new Scope(device);
            try {
                List<Parameter> parts = new ArrayList<>();
                return new Full(files.load(scope, Precision.FLOAT32, parts), parts, base, scope);
            } catch (RuntimeException failure) {
                scope.close();
                throw failure;
            }
        }

        @Override
        public Map<String, Tensor> parameters() {
            Map<String, Tensor> parameters = new LinkedHashMap<>();
            parts.forEach(part -> parameters.put(part.names().getFirst(), part.tensor()));
            return parameters;
        }

        /** All tensors under their names in the files; experts of a stack are views. */
        private Map<String, Tensor> named() {
            Map<String, Tensor> named = new LinkedHashMap<>();
            for (Parameter part : parts) {
                if (part.names().size() == 1) {
                    named.put(part.names().getFirst(), part.tensor());
                    continue;
                }
                Shape each = Shape.of(part.tensor().dim(1), part.tensor().dim(2));
                for (int e = 0; e < part.names().size(); e++) {
                    named.put(part.names().get(e), part.tensor().view(e * each.size(), each));
                }
            }
            return named;
        }

        @Override
        public void save(Path folder) {
            List<SafetensorsWriter.SafetensorsEntry> entries = new ArrayList<>();
            named().forEach((name, tensor) ->
                    entries.add(SafetensorsWriter.SafetensorsEntry.of(name, tensor, Device.of(scope))));
            SafetensorsWriter.writeModel(folder, entries, SHARD);
            copyCompanions(base, folder);
        }

        @Override
        public void restore(Path folder) {
            try (Safetensors file = Safetensors.open(folder)) {
                named().forEach((name, tensor) -> fill(file, name, tensor, Device.of(scope)));
            }
        }

        @Override
        public void close() {
            scope.close();
        }
    }

    static void copyCompanions(Path from, Path to) {
        for (String name : LoraMerger.COMPANIONS) {
            if (Files.isRegularFile(from.resolve(name))) {
                try {
                    Files.copy(from.resolve(name), to.resolve(name), StandardCopyOption.REPLACE_EXISTING);
                } catch (IOException failure) {
                    throw new TrainException(to.resolve(name) + ": cannot be written: " + failure, failure);
                }
            }
        }
    }
}
