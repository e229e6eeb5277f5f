package dev.starforge.model.load;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.Parameter;
import dev.starforge.model.Quantization;
import dev.starforge.model.arch.Architectures;
import dev.starforge.model.file.Pickle;
import dev.starforge.model.file.PrequantizedSource;
import dev.starforge.model.file.QuantizingSource;
import dev.starforge.model.file.Safetensors;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.file.WeightSource;
import dev.starforge.model.gguf.GgufConfig;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufNames;
import dev.starforge.model.gguf.GgufSource;
import dev.starforge.model.layer.Adapter;
import dev.starforge.model.layer.WeightLoader;
import dev.starforge.model.lora.AdapterTable;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntConsumer;
import java.util.function.LongConsumer;
import java.util.stream.Stream;

/**
 * The files of a model: a folder in HF format, with {@code config.json} and {@code model.safetensors} or its shards, or one GGUF
 * file. The architecture comes from the config or the GGUF metadata.
 */
public final class ModelFiles implements AutoCloseable {
    private final JsonConfig config;
    private final WeightSource fileWeights;
    private final WeightSource weights;
    private final Set<Integer> eosTokenIds;
    private final List<TensorInfo> tensors;
    private final AutoCloseable file;
    private IntConsumer progress = _ -> {};

    /** A tensor of the file. */
    public record TensorInfo(String name, String dtype, Shape shape, long bytes) {}

    private ModelFiles(
            JsonConfig config,
            WeightSource stored,
            WeightSource weights,
            Set<Integer> endOfText,
            List<TensorInfo> tensors,
            AutoCloseable file) {
        this.config = config;
        this.fileWeights = stored;
        this.weights = weights;
        this.eosTokenIds = endOfText;
        this.tensors = tensors;
        this.file = file;
    }

    public static ModelFiles open(Path path) {
        if (Files.isDirectory(path)) {
            return folder(path);
        }
        if (GgufFile.isGguf(path)
                || Files.isRegularFile(path) && path.toString().endsWith(".gguf")) {
            return gguf(path);
        }
        Pickle.refuse(path);
        throw new ModelException(
                path,
                (Files.exists(path) ? "" : "no such file or folder; ")
                        + "expected a folder with config.json and safetensors, or a GGUF file"
                        + (path.toString().endsWith(".safetensors") ? "; pass the folder of this file" : ""));
    }

    /** Returns a model with random weights and the shapes of a preset, for benchmarks. Equal arguments give equal weights. */
    public static ModelFiles random(String preset, String format) {
        return random(RandomModel.of(preset, format));
    }

    static ModelFiles random(RandomModel made) {
        return new ModelFiles(made.config(), made, made, Set.of(), made.tensors(), () -> {});
    }

    /** Returns the names of the presets of {@link #random}. */
    public static List<String> presets() {
        return RandomModel.presetNames();
    }

    private static ModelFiles folder(Path path) {
        JsonConfig config = JsonConfig.read(path.resolve("config.json"));
        Architectures.of(config); // rejects an unknown architecture before reading weights
        Path generation = path.resolve("generation_config.json");
        Set<Integer> ends =
                Files.exists(generation) ? JsonConfig.read(generation).integers("eos_token_id") : Set.of();
        Set<Integer> endOfText = ends.isEmpty() ? config.integers("eos_token_id") : ends;
        Safetensors file = Safetensors.open(path);
        try {
            if (config.has("quantization_config")) {
                PrequantizedSource packed = PrequantizedSource.open(file, config.section("quantization_config"));
                return new ModelFiles(config, packed, packed, endOfText, packed(file, packed), file);
            }
            List<TensorInfo> tensors = file.tensors().values().stream()
                    .map(t -> new TensorInfo(t.name(), t.dtype(), t.shape(), t.bytes()))
                    .toList();
            WeightSource stored = WeightSource.of(file);
            return new ModelFiles(config, stored, stored, endOfText, tensors, file);
        } catch (RuntimeException failure) {
            file.close();
            throw failure;
        }
    }

    /** Groups the tensors of pre-quantized weights: several tensors of the file are one weight. */
    private static List<TensorInfo> packed(Safetensors file, PrequantizedSource source) {
        Map<String, TensorInfo> weights = new LinkedHashMap<>();
        for (SafetensorsFile.SafetensorsTensor t : file.tensors().values()) {
            String name = source.weightOf(t.name());
            String type = source.storedType(name).map(DType::name).orElse(t.dtype());
            weights.merge(
                    name,
                    new TensorInfo(name, type, source.shape(name), t.bytes()),
                    (a, b) -> new TensorInfo(name, type, a.shape, a.bytes + b.bytes));
        }
        return List.copyOf(weights.values());
    }

    private static ModelFiles gguf(Path path) {
        GgufFile file = GgufFile.open(path);
        try {
            if (!Architectures.isKnown(GgufNames.modelType(file))) {
                throw file.invalid("general.architecture", Architectures.known());
            }
            if (file.integer("split.count", 1) > 1) {
                throw file.invalid("split.count", "a whole model: join the parts with llama-gguf-split --merge");
            }
            JsonConfig config = GgufConfig.of(file);
            Set<Integer> ends = new TreeSet<>();
            for (String key : List.of("eos_token_id", "eot_token_id", "eom_token_id")) {
                if (file.hasKey("tokenizer.ggml." + key)) {
                    ends.add(file.integer("tokenizer.ggml." + key));
                }
            }
            List<TensorInfo> tensors = file.tensors().values().stream()
                    .map(t -> new TensorInfo(t.name(), t.format().name(), t.shape(), t.bytes()))
                    .toList();
            WeightSource stored = new GgufSource(file, config);
            return new ModelFiles(config, stored, stored, ends, tensors, file);
        } catch (RuntimeException failure) {
            file.close();
            throw failure;
        }
    }

    /**
     * Returns the same files as a QLoRA base: projections are quantized while they are loaded, or keep the quantized type of the
     * file; everything else has the type of the precision. Loaded in float32, it is the same model dequantized. Close only one
     * of the two.
     */
    public ModelFiles quantized(Quantization quantization) {
        return new ModelFiles(
                config, fileWeights, new QuantizingSource(fileWeights, quantization), eosTokenIds, tensors, file);
    }

    /** Sets a listener for the percentage that is loaded. */
    public void onLoadProgress(IntConsumer listener) {
        progress = listener;
    }

    /** Loads the model onto the scope's device. */
    public Model load(Scope scope, Precision precision) {
        return load(scope, precision, Adapter.NONE);
    }

    /** Loads the model with a LoRA adapter. Fails if an update of the adapter matches no projection. */
    public Model load(Scope scope, Precision precision, LoraAdapter adapter) {
        Model model = load(scope, precision, adapter.updates());
        adapter.requireAllUsed();
        return model;
    }

    /** Loads the model with an adapter table for multi-LoRA serving. Fails if a target of the table matches no projection. */
    public Model load(Scope scope, Precision precision, AdapterTable table) {
        Model model = load(scope, precision, table.updates());
        table.requireFound();
        return model;
    }

    /** Loads the model for full training and adds its weights to {@code parameters}. */
    public Model load(Scope scope, Precision precision, List<Parameter> parameters) {
        WeightLoader loading = new WeightLoader(weights, scope, precision, Adapter.NONE);
        Model model = Architectures.build(config, loading);
        parameters.addAll(loading.parameters());
        return model;
    }

    private Model load(Scope scope, Precision precision, Adapter adapter) {
        if (precision.asStored()) {
            boolean asInFile = weights == fileWeights && !(fileWeights instanceof PrequantizedSource);
            scope.expect(asInFile ? copied(Device.of(scope)) : sizes(scope, precision));
        }
        long all = Math.max(
                1, tensors.stream().mapToLong(each -> each.shape.size()).sum());
        AtomicLong done = new AtomicLong();
        LongConsumer loaded = more -> progress.accept((int) Math.min(100, 100 * done.addAndGet(more) / all));
        return Architectures.build(config, new WeightLoader(weights, scope, precision, adapter, loaded));
    }

    /** Returns the bytes of each tensor that is copied, not memory-mapped. */
    private List<Long> copied(Device device) {
        return tensors.stream()
                .filter(tensor -> !isMapped(tensor, device))
                .map(TensorInfo::bytes)
                .toList();
    }

    private static boolean isMapped(TensorInfo tensor, Device device) {
        return tensor.shape.rank() > 1
                && Stream.of(DType.values())
                        .filter(device::maps)
                        .anyMatch(type -> type.name().equals(tensor.dtype));
    }

    /** Returns the bytes of each weight, from building the model with shapes only. */
    private List<Long> sizes(Scope scope, Precision precision) {
        Scope shapes = new NullOps(Device.of(scope), precision, Fallback.QUIET).scope();
        WeightLoader planned = new WeightLoader(weights, shapes, precision, Adapter.NONE);
        Architectures.build(config, planned);
        return planned.parameters().stream().map(each -> each.tensor().bytes()).toList();
    }

    /**
     * Reads every weight of the model once and checks it for NaN and infinity.
     *
     * @throws ModelException if a weight is not finite; it names the tensor
     */
    public void requireFinite(Device like) {
        Scope shapes = new NullOps(like, Precision.FLOAT32, Fallback.QUIET).scope();
        WeightLoader planned = new WeightLoader(fileWeights, shapes, Precision.FLOAT32, Adapter.NONE);
        Architectures.build(config, planned);
        FiniteCheck check = new FiniteCheck(fileWeights);
        planned.parameters().stream().flatMap(each -> each.names().stream()).distinct().toList().parallelStream()
                .forEach(check::require);
    }

    /** Returns the config with the quantized types of the file. */
    public ModelSpec spec() {
        return new ModelSpec(config, fileWeights::storedType, quantizedTypes());
    }

    public JsonConfig config() {
        return config;
    }

    /** Returns the quantized types of the file's tensors. */
    private Set<DType> quantizedTypes() {
        Set<DType> types = EnumSet.noneOf(DType.class);
        for (DType type : DType.values()) {
            if (type.isQuantized() && tensors.stream().anyMatch(t -> t.dtype().equals(type.name()))) {
                types.add(type);
            }
        }
        return types;
    }

    /** Returns the weights as they are loaded, quantized for a QLoRA base. */
    public WeightSource weights() {
        return weights;
    }

    /** Returns the weights as the file stores them. */
    public WeightSource fileWeights() {
        return fileWeights;
    }

    public int heads() {
        return config.size("num_attention_heads");
    }

    public int kvHeads() {
        return config.size("num_key_value_heads", heads());
    }

    public String architecture() {
        return config.string("model_type");
    }

    /** Returns the ids of the EOS tokens; a model may have several. */
    public Set<Integer> eosTokenIds() {
        return eosTokenIds;
    }

    /** Returns the path that error messages name: the file, or the config of the folder. */
    public Path path() {
        return config.path();
    }

    /** Returns the tensors of the file. */
    public List<TensorInfo> tensors() {
        return tensors;
    }

    @Override
    public void close() {
        try {
            file.close();
        } catch (Exception failure) {
            throw new ModelException(config.path(), "cannot be closed: " + failure, failure);
        }
    }
}
