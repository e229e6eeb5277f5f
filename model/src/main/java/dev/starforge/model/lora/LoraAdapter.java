package dev.starforge.model.lora;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.model.Quantization;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.model.layer.Adapter;
import dev.starforge.model.layer.ExpertStack;
import dev.starforge.model.layer.Projection;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.ShapeException;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Fn;
import dev.starforge.tensor.op.Ops;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Low-rank updates for the projections of a model, in PEFT's files: {@code adapter_config.json} and
 * {@code adapter_model.safetensors}. The updates are the trainable parameters, in float32. They are read from a folder,
 * or initialized so that the model's outputs do not change. Unsupported settings that change results are refused by
 * name. An update without a projection in the model is an error, and so is a target that is not a projection.
 */
public final class LoraAdapter implements AutoCloseable {
    public static final String CONFIG = "adapter_config.json";
    public static final String WEIGHTS = "adapter_model.safetensors";

    private static final JsonMapper JSON =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();
    static final String PREFIX = "base_model.model.";
    static final String A = ".lora_A.weight";
    static final String B = ".lora_B.weight";
    private static final String MAGNITUDE = ".lora_magnitude_vector";

    /** Metadata key for the quantization of the base that the adapter was trained on; PEFT ignores it. */
    private static final String TRAINED_ON = "starforge.base_quantization";

    private static final List<String> UNSUPPORTED = List.of(
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

    private final LoraSource origin;
    private final Scope scope;
    private final Map<String, Tensor> parameters = new LinkedHashMap<>();
    private final List<LoraUpdate> loraUpdates = new ArrayList<>();
    private int sites;

    /**
     * The update of a projection or an expert stack.
     *
     * @param experts the number of experts in the stack; 0 for a projection
     * @param outer for a stack: true for the update of down, false for the update of gate and up
     */
    public record LoraUpdate(String path, Tensor a, Tensor b, float scale, int experts, boolean outer) {
        /** Returns the rank of the update (per expert for a stack). */
        public int rank() {
            return Math.toIntExact(a.dim(0) / Math.max(1, experts));
        }

        /** Returns the part of a stack's B that belongs to one of {@code parts} matrices, as [experts, out, rank]. */
        public float[] ups(float[] all, int part, int parts) {
            int rows = Math.toIntExact(b.dim(0)) / parts;
            float[] ups = new float[experts * rows * rank()];
            int to = 0;
            for (int e = 0; e < experts; e++) {
                for (int from = part * rows * rank(); from < (part + 1) * rows * rank(); from++) {
                    ups[to++] = all[from * experts + e];
                }
            }
            return ups;
        }
    }

    LoraAdapter(LoraSource origin, Scope scope) {
        this.origin = origin;
        this.scope = scope;
    }

    /** Opens an adapter whose tensors are allocated in {@code scope}. */
    public static LoraAdapter open(Path folder, Scope scope) {
        return new LoraAdapter(files(folder), scope);
    }

    /** Opens the files of an adapter and checks its settings. */
    static LoraSource.PeftFiles files(Path folder) {
        JsonConfig config = JsonConfig.read(folder.resolve(CONFIG));
        if (!config.string("peft_type").equals("LORA")) {
            throw config.invalid("peft_type", "LORA");
        }
        for (String key : UNSUPPORTED) {
            if (!config.isUnset(key)) {
                throw config.invalid(key, "it unset: it is not supported");
            }
        }
        if (config.isString("init_lora_weights")
                && !List.of("gaussian", "eva", "orthogonal").contains(config.string("init_lora_weights"))) {
            throw config.invalid("init_lora_weights", "an initialization that does not change the base");
        }
        if (!config.string("bias", "none").equals("none")) {
            throw config.invalid("bias", "none");
        }
        return new LoraSource.PeftFiles(config, SafetensorsFile.open(folder.resolve(WEIGHTS)));
    }

    /**
     * Creates an adapter: A is initialized uniformly as in PEFT, B is zero, DoRA magnitudes are the row norms of the
     * base. The values depend on the seed and the order of the projections only.
     */
    public static LoraAdapter create(LoraConfig settings, long seed, Scope scope) {
        return new LoraAdapter(new LoraSource.NewLora(settings, seed), scope);
    }

    /** Returns the adapter to load a model with; see {@link Adapter}. */
    @SuppressWarnings("exports") // for the packages of this module
    public Adapter updates() {
        return new Adapter() {
            @Override
            public Projection apply(String path, Projection base, int in, int out) {
                if (!origin.has(path)) {
                    return base;
                }
                int rank = origin.rank(path);
                float scale = origin.scale(path, rank);
                int site = ++sites;
                if (!origin.dora()) {
                    Tensor a = a(path, rank, in);
                    Tensor b = b(path, rank, out);
                    loraUpdates.add(new LoraUpdate(path, a, b, scale, 0, false));
                    return new Projection.LoraLinear(base, a, b, scale, site);
                }
                return base instanceof Projection.Linear(Tensor matrix, List<Tensor> bias) && !bias.isEmpty()
                        ? new Projection.Biased(
                                dora(path, new Projection.Linear(matrix), rank, scale, site, in, out), bias.getFirst())
                        : dora(path, base, rank, scale, site, in, out);
            }

            @Override
            public List<ExpertStack.ExpertUpdate> expertUpdates(
                    String path, int experts, int in, int out, boolean outer) {
                if (!origin.hasStack(path, outer)) {
                    return List.of();
                }
                String wrapper = outer ? path : path + LoraSource.GATE_UP;
                int rank = origin.rank(path + (outer ? ".down_proj" : ".gate_up_proj"));
                float scale = origin.scale(path + (outer ? ".down_proj" : ".gate_up_proj"), rank);
                Tensor a = a(wrapper, experts * rank, in);
                Tensor b = b(wrapper, experts * rank, out);
                loraUpdates.add(new LoraUpdate(path, a, b, scale, experts, outer));
                return List.of(new ExpertStack.SingleExpertLora(a, b, experts, scale));
            }
        };
    }

    private Projection dora(String path, Projection base, int rank, float scale, int site, int in, int out) {
        Tensor a = a(path, rank, in);
        Tensor b = b(path, rank, out);
        Tensor magnitude = parameter(path + MAGNITUDE, Spec.f32(out), (seed, index) -> lengths(base));
        return new Projection.DoraLinear(base, a, b, magnitude, scale, site);
    }

    private float[] lengths(Projection base) {
        try (Scope step = new Scope(scope.device())) {
            Ops ops = Device.of(scope).ops(step, Precision.FLOAT32, Fallback.QUIET);
            Tensor squares = Projection.DoraLinear.squaredLengths(ops, base);
            return scope.device().floats(ops.mul(squares, ops.map(Fn.RSQRT, squares)));
        }
    }

    private Tensor a(String path, int rank, int in) {
        return parameter(path + A, Spec.f32(rank, in), (seed, index) -> {
            float[] values = new float[rank * in];
            float bound = (float) (1 / Math.sqrt(in));
            for (int i = 0; i < values.length; i++) {
                values[i] = bound * (2 * Philox.uniform(seed, index, i) - 1);
            }
            return values;
        });
    }

    private Tensor b(String path, int rank, int out) {
        return parameter(path + B, Spec.f32(out, rank), (seed, index) -> new float[out * rank]);
    }

    private Tensor parameter(String name, Spec spec, LoraSource.Initializer start) {
        Tensor tensor = origin.load(name, spec, scope, start);
        parameters.put(name, tensor);
        return tensor;
    }

    /** Throws if an update has no projection in the model, or a target is not a projection. */
    public void requireAllUsed() {
        origin.requireAllUsed();
    }

    /** Returns the tensors of the file that no projection has used yet; empty for a new adapter. */
    Set<String> unused() {
        return origin.unused();
    }

    /** Returns the updates loaded so far, without those of DoRA. */
    public List<LoraUpdate> loraUpdates() {
        return loraUpdates;
    }

    public boolean dora() {
        return origin.dora();
    }

    public boolean has(String path) {
        return origin.has(path);
    }

    /** Returns lora_alpha. */
    public double alpha() {
        return origin.alpha();
    }

    /** Returns the same adapter with no updates loaded, in the same scope; closing this adapter closes it. */
    public LoraAdapter reopen() {
        return new LoraAdapter(origin, scope);
    }

    /** Returns the trainable parameters by name. */
    public Map<String, Tensor> parameters() {
        return Collections.unmodifiableMap(parameters);
    }

    /**
     * Returns the quantization of the base model during training; NONE if the adapter was trained by another program.
     */
    public static Quantization trainedOn(Path folder) {
        try (SafetensorsFile file = SafetensorsFile.open(folder.resolve(WEIGHTS))) {
            return Quantization.parse(file.metadata(TRAINED_ON, Quantization.NONE.toString()));
        } catch (ShapeException wrong) {
            throw new ModelException(folder.resolve(WEIGHTS), TRAINED_ON + ": " + wrong.getMessage(), wrong);
        }
    }

    /**
     * Writes PEFT's two files for the parameters of an adapter created with {@code settings}.
     *
     * @param trainedOn the quantization of the base
     */
    public static void save(
            Path folder,
            LoraConfig settings,
            String base,
            Quantization trainedOn,
            Map<String, Tensor> parameters,
            Device device) {
        List<SafetensorsWriter.SafetensorsEntry> entries = new ArrayList<>();
        parameters.forEach(
                (name, tensor) -> entries.add(SafetensorsWriter.SafetensorsEntry.of(PREFIX + name, tensor, device)));
        SafetensorsWriter.write(folder.resolve(WEIGHTS), entries, Map.of(TRAINED_ON, trainedOn.toString()));
        ObjectNode config = JSON.createObjectNode();
        config.put("base_model_name_or_path", base);
        config.put("bias", "none");
        config.put("fan_in_fan_out", false);
        config.put("inference_mode", true);
        config.put("init_lora_weights", true);
        config.put("lora_alpha", settings.alpha());
        config.put("lora_dropout", settings.dropout());
        config.put("peft_type", "LORA");
        config.put("r", settings.rank());
        config.putObject("rank_pattern");
        config.putObject("alpha_pattern");
        ArrayNode modules = config.putArray("target_modules");
        found(settings, parameters.keySet()).forEach(modules::add);
        if (settings.targets().contains(LoraConfig.EXPERTS)) {
            config.putArray("target_parameters").add("gate_up_proj").add("down_proj");
        }
        config.put("task_type", "CAUSAL_LM");
        config.put("use_dora", settings.dora());
        config.put("use_rslora", settings.rankStabilized());
        try {
            Files.writeString(folder.resolve(CONFIG), JSON.writeValueAsString(config) + "\n");
        } catch (IOException failure) {
            throw new ModelException(folder.resolve(CONFIG), "cannot be written: " + failure, failure);
        }
    }

    /** Returns the targets that have parameters; PEFT refuses targets that are not modules. */
    private static List<String> found(LoraConfig settings, Set<String> names) {
        return settings.targets().stream()
                .filter(target -> !target.equals(LoraConfig.EXPERTS))
                .filter(target -> names.stream()
                        .filter(name -> name.endsWith(A))
                        .map(name -> name.substring(0, name.length() - A.length()))
                        .anyMatch(path -> LoraSource.matches(path, target)))
                .toList();
    }

    @Override
    public void close() {
        origin.close();
    }
}
