package dev.starforge.model.load;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.Parameter;
import dev.starforge.model.Quantization;
import dev.starforge.model.arch.Architectures;
import dev.starforge.model.file.QuantizingSource;
import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.model.file.WeightSource;
import dev.starforge.model.layer.Adapter;
import dev.starforge.model.layer.WeightLoader;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.device.DeviceException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * The {@code config.json} of a model without its weights, to plan memory and to initialize a new model. The tensors are those
 * that the architecture requests while it is built, as on PyTorch's meta device.
 */
public final class ModelSpec {
    private static final double DEVIATION = 0.02;

    private final JsonConfig config;
    private final Function<String, Optional<DType>> types;
    private final Set<DType> quantized;

    /** Creates the spec of a file with tensors of these types. */
    ModelSpec(JsonConfig config, Function<String, Optional<DType>> types, Set<DType> quantized) {
        this.config = config;
        this.types = types;
        this.quantized = quantized;
    }

    private ModelSpec(JsonConfig config) {
        this(config, name -> Optional.empty(), Set.of());
    }

    public static ModelSpec read(Path file) {
        return new ModelSpec(JsonConfig.read(file));
    }

    /** Returns the quantized types of the model's file; empty if it is not quantized or there is no file. */
    public Set<DType> quantized() {
        return quantized;
    }

    /** Parses a config. */
    public static ModelSpec of(String name, String json) {
        return new ModelSpec(JsonConfig.of(Path.of(name), new JsonMapper().readTree(json)));
    }

    public String architecture() {
        return config.string("model_type");
    }

    /** Builds the model on a device without values and adds its weights to {@code parameters}. */
    public Model plan(Scope scope, Precision precision, List<Parameter> parameters) {
        WeightLoader weights = new WeightLoader(new ShapeRecorder(scope), scope, precision, Adapter.NONE);
        Model model = Architectures.build(config, weights);
        parameters.addAll(weights.parameters());
        return model;
    }

    /** Builds the model as a quantized base with an adapter on a device without values; see {@link ModelFiles#quantized}. */
    public Model plan(Scope scope, Precision precision, Quantization quantization, LoraAdapter adapter) {
        WeightSource base = new QuantizingSource(new ShapeRecorder(scope), quantization);
        Model model = Architectures.build(config, new WeightLoader(base, scope, precision, adapter.updates()));
        adapter.requireAllUsed();
        return model;
    }

    /** Returns the shape of every tensor of the model. {@code scope} is on a device without values. */
    public Map<String, Shape> tensors(Scope scope) {
        ShapeRecorder shapes = new ShapeRecorder(scope);
        Architectures.build(config, new WeightLoader(shapes, scope, Precision.FLOAT32, Adapter.NONE));
        return shapes.asked;
    }

    /**
     * Writes a newly initialized model: matrices from a normal distribution with standard deviation 0.02, divided by the square
     * root of twice the number of layers for the last projection of a residual branch (Radford et al. 2019); norms 1; biases 0.
     * {@code scope} is on a device without values.
     */
    public void initialize(Path folder, long seed, Scope scope) {
        double residual = DEVIATION / Math.sqrt(2.0 * config.size("num_hidden_layers"));
        List<SafetensorsWriter.SafetensorsEntry> entries = new ArrayList<>();
        tensors(scope).forEach((name, shape) -> {
            int site = entries.size();
            boolean ends = name.matches(".*\\.(o_proj|c_proj|down_proj|dense|fc2)\\.weight");
            float deviation = (float) (ends ? residual : DEVIATION);
            entries.add(SafetensorsWriter.SafetensorsEntry.of(name, "F32", shape, (first, out, count) -> {
                for (int i = 0; i < count; i++) {
                    out[i] = shape.rank() == 1
                            ? name.endsWith(".weight") ? 1 : 0
                            : deviation * Philox.normal(seed, site, first + i);
                }
            }));
        });
        SafetensorsWriter.writeModel(folder, entries, Long.MAX_VALUE);
        try {
            Files.writeString(folder.resolve("config.json"), config.json() + "\n");
        } catch (IOException failure) {
            throw new ModelException(folder, "config.json cannot be written: " + failure, failure);
        }
    }

    /**
     * Returns a model with these shapes, fewer layers and random weights, quantized like a QLoRA base, for benchmarks without the
     * model file. {@code scope} is on a device without values.
     */
    public ModelFiles random(int layers, Quantization quantization, Scope scope) {
        ObjectNode node = (ObjectNode) new JsonMapper().readTree(config.json());
        ModelSpec slice =
                new ModelSpec(JsonConfig.of(config.path(), node.put("num_hidden_layers", layers)), types, quantized);
        ShapeRecorder shapes = slice.new ShapeRecorder(scope);
        WeightSource base = new QuantizingSource(shapes, quantization);
        Architectures.build(slice.config, new WeightLoader(base, scope, Precision.FLOAT32, Adapter.NONE));
        return ModelFiles.random(new RandomModel(slice.config, shapes.asked, base::storedType));
    }

    public int layers() {
        return config.size("num_hidden_layers");
    }

    /** A weight source without values that records the tensors that are requested. */
    private final class ShapeRecorder implements WeightSource {
        private final Map<String, Shape> asked = new LinkedHashMap<>();

        ShapeRecorder(Scope scope) {
            if (scope.device().holdsValues()) {
                throw new DeviceException("plan of " + config.path() + ": has no values for "
                        + scope.device().name());
            }
        }

        @Override
        public Path path() {
            return config.path();
        }

        @Override
        public boolean has(String name, Shape wanted) {
            asked.put(name, wanted);
            return true;
        }

        @Override
        public Shape shape(String name) {
            if (!asked.containsKey(name)) {
                throw new ModelException(config.path(), "a config alone does not say what shape " + name + " has");
            }
            return asked.get(name);
        }

        @Override
        public Optional<FileRegion> region(String name) {
            return Optional.empty();
        }

        @Override
        public Optional<DType> storedType(String name) {
            return types.apply(name);
        }

        @Override
        public void readRows(String name, long first, ByteBuffer into) {
            throw new ModelException(config.path(), "a config alone has no values for " + name);
        }

        @Override
        public void read(String name, long first, float[] out, int count) {
            throw new ModelException(config.path(), "a config alone has no values for " + name);
        }
    }
}
