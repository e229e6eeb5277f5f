package dev.starforge.model.load;

import dev.starforge.model.Config;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.Parameter;
import dev.starforge.model.Quantization;
import dev.starforge.model.arch.Architectures;
import dev.starforge.model.file.QuantizedSource;
import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.model.file.WeightSource;
import dev.starforge.model.layer.Adapter;
import dev.starforge.model.layer.Weights;
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
 * A model's {@code config.json} without its weights: enough to plan one that is not here, and to draw the weights of a new
 * one. What tensors there are is what the architecture asks for while it is built.
 */
public final class ModelSpec {
    private static final double DEVIATION = 0.02;

    private final Config config;
    private final Function<String, Optional<DType>> types;
    private final Set<DType> quantized;

    /** Of a file that has tensors of these types, {@code quantized} being the quantized ones among them. */
    ModelSpec(Config config, Function<String, Optional<DType>> types, Set<DType> quantized) {
        this.config = config;
        this.types = types;
        this.quantized = quantized;
    }

    private ModelSpec(Config config) {
        this(config, name -> Optional.empty(), Set.of());
    }

    public static ModelSpec read(Path file) {
        return new ModelSpec(Config.read(file));
    }

    /** The quantized types that the model's file has; none where it is not quantized, or not here. */
    public Set<DType> quantized() {
        return quantized;
    }

    /** From the text of a config. */
    public static ModelSpec of(String name, String json) {
        return new ModelSpec(Config.of(Path.of(name), new JsonMapper().readTree(json)));
    }

    public String architecture() {
        return config.text("model_type");
    }

    /** The model on a device that holds no values; its weights are added to {@code parameters}. */
    public Model plan(Scope scope, Precision precision, List<Parameter> parameters) {
        Weights weights = new Weights(new Shapes(scope), scope, precision, Adapter.NONE);
        Model model = Architectures.build(config, weights);
        parameters.addAll(weights.parameters());
        return model;
    }

    /** The model as a base with an adapter, see {@link ModelFiles#asBase}, on a device that holds no values. */
    public Model plan(Scope scope, Precision precision, Quantization quantization, LoraAdapter adapter) {
        WeightSource base = new QuantizedSource(new Shapes(scope), quantization);
        Model model = Architectures.build(config, new Weights(base, scope, precision, adapter.updates()));
        adapter.requireAllUsed();
        return model;
    }

    /** Every tensor of the model by name, found on a device that holds no values. */
    public Map<String, Shape> tensors(Scope scope) {
        Shapes shapes = new Shapes(scope);
        Architectures.build(config, new Weights(shapes, scope, Precision.FLOAT32, Adapter.NONE));
        return shapes.asked;
    }

    /**
     * Writes a new model: matrices from a normal distribution of deviation 0.02, smaller by the square root of twice the
     * layers where they end a residual branch (Radford et al. 2019), norms one, biases zero. {@code scope} is on a device
     * that holds no values.
     */
    public void draw(Path folder, long seed, Scope scope) {
        double residual = DEVIATION / Math.sqrt(2.0 * config.size("num_hidden_layers"));
        List<SafetensorsWriter.Entry> entries = new ArrayList<>();
        tensors(scope).forEach((name, shape) -> {
            int site = entries.size();
            boolean ends = name.matches(".*\\.(o_proj|c_proj|down_proj|dense|fc2)\\.weight");
            float deviation = (float) (ends ? residual : DEVIATION);
            entries.add(SafetensorsWriter.Entry.of(name, "F32", shape, (first, out, count) -> {
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
     * A model like this one with fewer layers and random weights, quantized as a base would be: to time some of it without
     * its file. {@code scope} is on a device that holds no values.
     */
    public ModelFiles random(int layers, Quantization quantization, Scope scope) {
        ObjectNode node = (ObjectNode) new JsonMapper().readTree(config.json());
        ModelSpec slice =
                new ModelSpec(Config.of(config.path(), node.put("num_hidden_layers", layers)), types, quantized);
        Shapes shapes = slice.new Shapes(scope);
        WeightSource base = new QuantizedSource(shapes, quantization);
        Architectures.build(slice.config, new Weights(base, scope, Precision.FLOAT32, Adapter.NONE));
        return ModelFiles.random(new RandomModel(slice.config, shapes.asked, base::stored));
    }

    public int layers() {
        return config.size("num_hidden_layers");
    }

    /** Agrees to every tensor and remembers it; has no values. */
    private final class Shapes implements WeightSource {
        private final Map<String, Shape> asked = new LinkedHashMap<>();

        Shapes(Scope scope) {
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
        public boolean holds(String name, Shape wanted) {
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
        public Optional<DType> stored(String name) {
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
