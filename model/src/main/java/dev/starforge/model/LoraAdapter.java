package dev.starforge.model;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Low-rank updates for the projections of a model, in PEFT's files: {@code adapter_config.json} and
 * {@code adapter_model.safetensors}. The updates are the parameters that training moves, in float32. A setting that
 * changes results and is not supported is refused by name; an update that no projection took is an error.
 */
public final class LoraAdapter implements AutoCloseable {
    private static final String PREFIX = "base_model.model.";
    private static final String A = ".lora_A.weight";
    private static final String B = ".lora_B.weight";
    private static final String ANY = ".*\\.";
    private static final List<String> UNSUPPORTED = List.of(
            "use_dora",
            "use_qalora",
            "use_bdlora",
            "lora_bias",
            "fan_in_fan_out",
            "modules_to_save",
            "layer_replication",
            "trainable_token_indices",
            "alora_invocation_tokens",
            "arrow_config",
            "kasa_config",
            "lora_ga_config",
            "monteclora_config",
            "velora_config",
            "corda_config",
            "eva_config",
            "megatron_config");

    private final Config config;
    private final SafetensorsFile file;
    private final Weights loader;
    private final Map<String, Tensor> parameters = new LinkedHashMap<>();
    private final Set<String> unused = new TreeSet<>();

    private LoraAdapter(Config config, SafetensorsFile file, Scope scope) {
        this.config = config;
        this.file = file;
        this.loader = new Weights(WeightSource.of(file), scope, Precision.FLOAT32, Adapter.NONE);
    }

    /** Reads an adapter whose tensors will live in {@code scope}. */
    public static LoraAdapter open(Path folder, Scope scope) {
        Config config = Config.read(folder.resolve("adapter_config.json"));
        if (!config.text("peft_type").equals("LORA")) {
            throw config.wrong("peft_type", "LORA");
        }
        for (String key : UNSUPPORTED) {
            if (!config.isUnset(key)) {
                throw config.wrong(key, "it unset, since it is not supported");
            }
        }
        if (config.isText("init_lora_weights")
                && !List.of("gaussian", "eva", "orthogonal").contains(config.text("init_lora_weights"))) {
            throw config.wrong("init_lora_weights", "a start that leaves the base as it is");
        }
        if (!config.text("bias", "none").equals("none")) {
            throw config.wrong("bias", "none");
        }
        SafetensorsFile file = SafetensorsFile.open(folder.resolve("adapter_model.safetensors"));
        LoraAdapter adapter = new LoraAdapter(config, file, scope);
        adapter.unused.addAll(file.tensors().keySet());
        return adapter;
    }

    /** What a model's weights ask; see {@link Adapter}. */
    Adapter updates() {
        return new Adapter() {
            @Override
            public Projection apply(String path, Projection base, int in, int out) {
                if (!has(path)) {
                    return base;
                }
                int rank = rank(path);
                return new Projection.LoraLinear(base, a(path, rank, in), b(path, rank, out), scale(path, rank));
            }

            @Override
            public List<ExpertStack.Lora> expertUpdates(String path, int experts, int in, int out, boolean outer) {
                String wrapper = outer ? path : path + ".base_layer";
                if (!has(wrapper)) {
                    return List.of();
                }
                int rank = rank(path + (outer ? ".down_proj" : ".gate_up_proj"));
                float scale = scale(path + (outer ? ".down_proj" : ".gate_up_proj"), rank);
                return List.of(new ExpertStack.Lora(
                        a(wrapper, experts * rank, in), b(wrapper, experts * rank, out), experts, scale));
            }
        };
    }

    private boolean has(String path) {
        return file.has(PREFIX + path + A) || file.has(PREFIX + path + B);
    }

    private Tensor a(String path, int rank, int in) {
        return parameter(path + A, Spec.f32(rank, in));
    }

    private Tensor b(String path, int rank, int out) {
        return parameter(path + B, Spec.f32(out, rank));
    }

    private int rank(String path) {
        return (int) pattern("rank_pattern", path, config.size("r"));
    }

    private float scale(String path, int rank) {
        double alpha = pattern("alpha_pattern", path, config.number("lora_alpha"));
        return (float) (config.flag("use_rslora", false) ? alpha / Math.sqrt(rank) : alpha / rank);
    }

    /** The value for the module a path ends in; of PEFT's patterns only names and {@code .*\.name} are taken. */
    private double pattern(String key, String path, double missing) {
        if (config.isUnset(key)) {
            return missing;
        }
        Config patterns = config.section(key);
        for (String pattern : patterns.keys()) {
            String name = pattern.startsWith(ANY) ? pattern.substring(ANY.length()) : pattern;
            if (!name.matches("[A-Za-z0-9_.]+")) {
                throw config.wrong(key, "names of modules, with or without " + ANY + " before them");
            }
            if (path.equals(name) || path.endsWith("." + name)) {
                return patterns.number(pattern);
            }
        }
        return missing;
    }

    private Tensor parameter(String name, Spec spec) {
        Tensor tensor = loader.load(PREFIX + name, spec);
        parameters.put(name, tensor);
        unused.remove(PREFIX + name);
        return tensor;
    }

    /** Throws if the file has an update that no projection of the model took. */
    void requireAllUsed() {
        if (!unused.isEmpty()) {
            throw new ModelException(
                    file.path(),
                    "no projection of this model takes "
                            + String.join(", ", unused.stream().limit(4).toList()));
        }
    }

    /** What training moves, by name. */
    public Map<String, Tensor> parameters() {
        return Collections.unmodifiableMap(parameters);
    }

    @Override
    public void close() {
        file.close();
    }
}
