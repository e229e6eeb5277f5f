package dev.starforge.model;

import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import java.nio.file.Path;
import java.util.ArrayList;
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
    private static final List<String> UNSUPPORTED = List.of(
            "use_dora",
            "use_qalora",
            "use_bdlora",
            "lora_bias",
            "fan_in_fan_out",
            "rank_pattern",
            "alpha_pattern",
            "modules_to_save",
            "layer_replication",
            "target_parameters",
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

    private final SafetensorsFile file;
    private final Scope scope;
    private final int rank;
    private final float scale;
    private final Map<String, Tensor> parameters = new LinkedHashMap<>();
    private final Set<String> unused = new TreeSet<>();

    private LoraAdapter(SafetensorsFile file, Scope scope, int rank, float scale) {
        this.file = file;
        this.scope = scope;
        this.rank = rank;
        this.scale = scale;
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
        if (!config.text("bias", "none").equals("none")) {
            throw config.wrong("bias", "none");
        }
        int rank = config.size("r");
        double alpha = config.number("lora_alpha");
        double scale = config.flag("use_rslora", false) ? alpha / Math.sqrt(rank) : alpha / rank;
        SafetensorsFile file = SafetensorsFile.open(folder.resolve("adapter_model.safetensors"));
        LoraAdapter adapter = new LoraAdapter(file, scope, rank, (float) scale);
        adapter.unused.addAll(file.tensors().keySet());
        return adapter;
    }

    /** See {@link Adapter}. */
    Projection apply(String path, Projection base, int in, int out) {
        String a = PREFIX + path + ".lora_A.weight";
        String b = PREFIX + path + ".lora_B.weight";
        if (!file.has(a) && !file.has(b)) {
            return base;
        }
        Tensor tensorA = parameter(path + ".lora_A.weight", a, Spec.f32(rank, in));
        Tensor tensorB = parameter(path + ".lora_B.weight", b, Spec.f32(out, rank));
        return new Projection.LoraLinear(base, tensorA, tensorB, scale);
    }

    private Tensor parameter(String name, String stored, Spec spec) {
        Tensor tensor = Weights.load(file, stored, spec, scope);
        parameters.put(name, tensor);
        unused.remove(stored);
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

    /** The parameters' tensors, in the order of {@link #parameters()}. */
    public List<Tensor> tensors() {
        return new ArrayList<>(parameters.values());
    }

    @Override
    public void close() {
        file.close();
    }
}
