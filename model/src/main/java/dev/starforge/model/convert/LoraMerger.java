package dev.starforge.model.convert;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.model.Quantization;
import dev.starforge.model.file.SafetensorsWriter;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.gguf.GgufNames;
import dev.starforge.model.gguf.GgufSource;
import dev.starforge.model.gguf.GgufValue;
import dev.starforge.model.gguf.GgufWriter;
import dev.starforge.model.layer.Projection;
import dev.starforge.model.layer.WeightLoader;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.tensor.op.Ops;
import dev.starforge.tensor.op.Plain;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Merges an adapter into the weights of its base model, in float32, and writes a folder in HF's layout or a GGUF file.
 * A merged matrix is {@link Projection#weight} of the adapted projection. One matrix is in memory at a time. If the
 * adapter was trained on a quantized base, the base can be quantized and dequantized the same way first; then all
 * projections are written with the dequantized values, updated or not.
 */
public final class LoraMerger implements AutoCloseable {
    /** The files of a model folder that are copied with the weights. */
    public static final List<String> COMPANIONS = List.of(
            "config.json",
            "generation_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "chat_template.jinja",
            "special_tokens_map.json",
            "vocab.json",
            "merges.txt");

    private static final Pattern EXPERT = Pattern.compile("(.*\\.experts)\\.(\\d+)\\.(\\w+)\\.weight");

    private final Path base;
    private final ModelFiles files;
    private final Device device;
    private final Scope scope;
    private final LoraAdapter adapter;
    private final Map<String, Shape> tensors;
    private final Map<String, LoraAdapter.LoraUpdate> stacks = new HashMap<>();
    private final Map<String, LoraAdapter.LoraUpdate> loaded = new HashMap<>();

    /**
     * Opens a base model and an adapter. Throws if an update of the adapter has no projection in the model.
     *
     * @param onto the quantization applied to the base before the merge
     */
    public LoraMerger(Path base, Path adapter, Quantization onto, Device device) {
        this.base = base;
        this.device = device;
        files = ModelFiles.open(base).quantized(onto);
        scope = new Scope(device);
        try {
            NullOps shapes = new NullOps(device, Precision.FLOAT32, Fallback.QUIET);
            tensors = files.spec().tensors(shapes.scope());
            try (LoraAdapter planned =
                    LoraAdapter.open(adapter, new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope())) {
                files.load(shapes.scope(), Precision.FLOAT32, planned); // throws if the adapter does not fit
                planned.loraUpdates().stream()
                        .filter(update -> update.experts() > 0)
                        .forEach(update -> stacks.put(update.path() + update.outer(), update));
            }
            this.adapter = LoraAdapter.open(adapter, scope);
        } catch (RuntimeException failure) {
            scope.close();
            files.close();
            throw failure;
        }
    }

    /** Returns true if the adapter changes a tensor. */
    private boolean updates(String name) {
        return name.endsWith(".weight")
                && (adapter.has(path(name)) || expert(name).isPresent());
    }

    /** Returns true if the values written for a tensor differ from those of its file. */
    private boolean changes(String name) {
        return updates(name) || files.weights().changesValues(name);
    }

    private static String path(String name) {
        return name.substring(0, name.length() - ".weight".length());
    }

    /** Returns the update of the stack that contains an expert's matrix, and the position in it. */
    private Optional<OfStack> expert(String name) {
        Matcher matcher = EXPERT.matcher(name);
        if (!matcher.matches()) {
            return Optional.empty();
        }
        boolean outer = List.of("down_proj", "w2").contains(matcher.group(3));
        LoraAdapter.LoraUpdate update = stacks.get(matcher.group(1) + outer);
        return update == null
                ? Optional.empty()
                : Optional.of(new OfStack(
                        update,
                        Integer.parseInt(matcher.group(2)),
                        !outer && List.of("up_proj", "w3").contains(matcher.group(3))));
    }

    private record OfStack(LoraAdapter.LoraUpdate update, int expert, boolean up) {}

    /** Returns a whole tensor in HF's form, merged. */
    private float[] merged(String name) {
        Shape shape = Objects.requireNonNull(tensors.get(name), name);
        try (Scope step = new Scope(device)) {
            Ops ops = device.ops(step, Precision.FLOAT32, Fallback.QUIET);
            Tensor w = WeightLoader.load(files.weights(), name, new Spec(DType.F32, shape), step);
            if (shape.rank() != 2 || !updates(name)) {
                return device.floats(w);
            }
            Optional<OfStack> expert = expert(name);
            if (expert.isPresent()) {
                return device.floats(ops.add(w, delta(ops, expert.get(), shape)));
            }
            Projection projection = adapter.updates()
                    .apply(
                            path(name),
                            new Projection.Linear(w),
                            Math.toIntExact(shape.dim(1)),
                            Math.toIntExact(shape.dim(0)));
            return device.floats(projection.weight(ops));
        }
    }

    /**
     * Returns scale * B A of one expert: a [experts * rank, in], b [out, rank * experts] with the expert index fastest.
     */
    private Tensor delta(Ops ops, OfStack part, Shape shape) {
        LoraAdapter.LoraUpdate planned = part.update();
        int experts = planned.experts();
        LoraAdapter.LoraUpdate update = stack(planned);
        long rank = update.a().dim(0) / experts;
        long in = update.a().dim(1);
        long out = update.b().dim(0);
        Tensor a = update.a().view(part.expert() * rank * in, Shape.of(rank, in));
        Tensor ups = ops.permute(ops.reshape(update.b(), Shape.of(out, rank, experts)), 2, 0, 1);
        long from = part.up() ? shape.dim(0) : 0;
        Tensor b = ups.view((part.expert() * out + from) * rank, Shape.of(shape.dim(0), rank));
        return ops.scale(ops.run(new Plain.MatMul(false, false), b, a), update.scale());
    }

    private LoraAdapter.LoraUpdate stack(LoraAdapter.LoraUpdate planned) {
        return loaded.computeIfAbsent(planned.path() + planned.outer(), key -> {
            int in = Math.toIntExact(planned.a().dim(1));
            int out = Math.toIntExact(planned.b().dim(0));
            adapter.updates().expertUpdates(planned.path(), planned.experts(), in, out, planned.outer());
            return adapter.loraUpdates().getLast();
        });
    }

    /**
     * Writes a folder with safetensors, in shards of at most {@code shardBytes}.
     *
     * @param dtype F32, BF16 or F16; empty for the types of the base
     */
    public void writeFolder(Path folder, String dtype, long shardBytes) {
        if (!Files.isDirectory(base)) {
            exportFolder(folder, dtype.isEmpty() ? "F32" : dtype, shardBytes);
            return;
        }
        List<SafetensorsWriter.SafetensorsEntry> entries = new ArrayList<>();
        for (ModelFiles.TensorInfo stored : files.tensors()) {
            boolean plain = List.of("F32", "BF16", "F16").contains(stored.dtype());
            String type = !dtype.isEmpty() ? dtype : plain ? stored.dtype() : "F32";
            entries.add(
                    SafetensorsWriter.SafetensorsEntry.of(stored.name(), type, stored.shape(), values(stored.name())));
        }
        try {
            Files.createDirectories(folder);
            SafetensorsWriter.writeModel(folder, entries, shardBytes);
            for (String name : COMPANIONS) {
                if (Files.isRegularFile(base.resolve(name))) {
                    Files.copy(base.resolve(name), folder.resolve(name), StandardCopyOption.REPLACE_EXISTING);
                }
            }
            if (files.config().has("quantization_config")) { // the weights are written dequantized
                JsonConfig plain = files.config().without("quantization_config");
                Files.writeString(folder.resolve("config.json"), plain.json() + "\n");
            }
        } catch (IOException failure) {
            throw new ModelException(folder, "cannot be written: " + failure, failure);
        }
    }

    /** Writes a folder from a GGUF file, with the tensors that the architecture requires, by HF name. */
    private void exportFolder(Path folder, String dtype, long shardBytes) {
        Map<String, Integer> tokens = new TreeMap<>();
        GgufFile file = ((GgufSource) files.fileWeights()).file();
        for (String token : List.of("bos_token_id", "eos_token_id")) {
            if (file.hasKey("tokenizer.ggml." + token)) {
                tokens.put(token, file.integer("tokenizer.ggml." + token));
            }
        }
        String type = Map.of("F32", "float32", "F16", "float16").getOrDefault(dtype, "bfloat16");
        String config = HfConfig.of(files.config(), type, tokens);
        List<SafetensorsWriter.SafetensorsEntry> entries = new ArrayList<>();
        tensors.forEach(
                (name, shape) -> entries.add(SafetensorsWriter.SafetensorsEntry.of(name, dtype, shape, values(name))));
        try {
            Files.createDirectories(folder);
            SafetensorsWriter.writeModel(folder, entries, shardBytes);
            Files.writeString(folder.resolve("config.json"), config + "\n");
        } catch (IOException failure) {
            throw new ModelException(folder, "cannot be written: " + failure, failure);
        }
    }

    /** Returns a reader of a tensor: of the base, or of the merged matrix, which is released after the last chunk. */
    private SafetensorsWriter.FloatReader values(String name) {
        if (!tensors.containsKey(name) || !updates(name)) {
            return (first, out, count) -> files.weights().read(name, first, out, count);
        }
        return GgufExport.whole(() -> merged(name));
    }

    /**
     * Writes a GGUF file with the base's metadata.
     *
     * @param dtype F32, BF16 or F16 for merged matrices; empty for the types of the base, and F16 instead of a quantized
     *     one, which would lose a part of the adapter
     */
    public void writeGguf(Path file, String dtype) {
        if (!(files.fileWeights() instanceof GgufSource source)) {
            throw new ModelException(base, "is not a GGUF file; write the merged model as a folder with safetensors");
        }
        GgufFile stored = source.file();
        Map<String, List<String>> changed = new LinkedHashMap<>();
        for (String name : tensors.keySet()) {
            if (changes(name)) {
                source.holders(name)
                        .forEach(holder -> changed.computeIfAbsent(holder, key -> new ArrayList<>())
                                .add(name));
            }
        }
        List<GgufWriter.GgufEntry> entries = new ArrayList<>();
        for (GgufFile.GgufTensorInfo tensor : stored.tensors().values()) {
            List<String> parts = changed.getOrDefault(tensor.name(), List.of());
            BlockFormat format = dtype.isEmpty() ? unquantized(tensor.format()) : BlockFormat.valueOf(dtype);
            entries.add(
                    parts.isEmpty()
                            ? GgufWriter.GgufEntry.copy(stored, tensor)
                            : GgufWriter.GgufEntry.of(
                                    tensor.name(),
                                    format,
                                    tensor.shape(),
                                    GgufExport.whole(() -> rewritten(source, stored, tensor, parts))));
        }
        GgufWriter.write(file, stored.metadata(), entries);
    }

    private static BlockFormat unquantized(BlockFormat format) {
        return format == BlockFormat.F32 || format == BlockFormat.BF16 ? format : BlockFormat.F16;
    }

    /**
     * Writes a GGUF file from a base model in a folder.
     *
     * @param dtype F32, BF16 or F16 for matrices; empty for the types of the base
     * @param vocabulary the metadata of its tokenizer
     * @return notes for the user about differences of the file
     */
    public List<String> exportGguf(Path file, String dtype, Map<String, GgufValue> vocabulary) {
        Map<String, String> stored = new HashMap<>();
        files.tensors().forEach(tensor -> stored.put(tensor.name(), tensor.dtype()));
        return new GgufExport(
                        files.config(),
                        tensors,
                        this::values,
                        name -> GgufConversion.format(dtype.isEmpty() ? stored.getOrDefault(name, "F32") : dtype))
                .write(file, base.toAbsolutePath().normalize().getFileName().toString(), vocabulary);
    }

    private float[] rewritten(GgufSource source, GgufFile stored, GgufFile.GgufTensorInfo tensor, List<String> parts) {
        Map<String, float[]> into = new TreeMap<>();
        for (String part : parts) {
            for (String holder : source.holders(part)) {
                into.computeIfAbsent(holder, stored::readFloats);
            }
            source.put(part, merged(part), into);
        }
        return Objects.requireNonNull(into.get(tensor.name()), tensor.name());
    }

    /**
     * Writes the adapter alone as a GGUF adapter of llama.cpp. If an update's scale is not alpha / rank, B is rescaled.
     */
    public void writeGgufAdapter(Path file) {
        if (adapter.dora()) {
            throw new ModelException(file, "llama.cpp does not support DoRA adapters");
        }
        LoraAdapter all = adapterAgain();
        if (all.loraUpdates().stream().anyMatch(update -> update.path().endsWith(".kv_b_proj"))) {
            throw new ModelException(
                    file,
                    "llama.cpp splits kv_b_proj in two and supports no adapter for it; merge the adapter into the model instead");
        }
        double alpha = all.alpha();
        String architecture = GgufNames.architecture(files.architecture());
        Map<String, GgufValue> metadata = new LinkedHashMap<>();
        metadata.put("general.architecture", GgufValue.string(architecture));
        metadata.put("general.type", GgufValue.string("adapter"));
        metadata.put("adapter.type", GgufValue.string("lora"));
        metadata.put("adapter.lora.alpha", GgufValue.f32((float) alpha));
        List<GgufWriter.GgufEntry> entries = new ArrayList<>();
        for (LoraAdapter.LoraUpdate update : all.loraUpdates()) {
            if (update.experts() > 0) {
                stack(entries, update, alpha);
            } else {
                plain(entries, update, alpha, architecture);
            }
        }
        GgufWriter.write(file, metadata, entries);
    }

    /** Returns the adapter with all updates loaded, in the order of the model. */
    private LoraAdapter adapterAgain() {
        LoraAdapter again = adapter.reopen();
        NullOps shapes = new NullOps(device, Precision.FLOAT32, Fallback.QUIET);
        files.load(shapes.scope(), Precision.FLOAT32, again);
        return again;
    }

    private void plain(
            List<GgufWriter.GgufEntry> entries, LoraAdapter.LoraUpdate update, double alpha, String architecture) {
        String name = GgufNames.tensor(update.path() + ".weight");
        int rank = Math.toIntExact(update.a().dim(0));
        float[] b = device.floats(update.b());
        boolean query = update.path().endsWith(".self_attn.q_proj");
        if (architecture.equals("llama") && (query || update.path().endsWith(".self_attn.k_proj"))) {
            int heads = query ? files.heads() : files.kvHeads();
            b = GgufSource.interleaved(b, rank, b.length / rank / heads);
        }
        entries.add(GgufWriter.GgufEntry.of(
                name + ".lora_a", BlockFormat.F32, update.a().shape(), device.floats(update.a())));
        entries.add(GgufWriter.GgufEntry.of(
                name + ".lora_b", BlockFormat.F32, update.b().shape(), scaled(b, update.scale() * rank / alpha)));
    }

    private void stack(List<GgufWriter.GgufEntry> entries, LoraAdapter.LoraUpdate update, double alpha) {
        int experts = update.experts();
        int rank = update.rank();
        int in = Math.toIntExact(update.a().dim(1));
        int out = Math.toIntExact(update.b().dim(0));
        float[] a = device.floats(update.a());
        float[] b = scaled(device.floats(update.b()), update.scale() * rank / alpha);
        List<String> names = update.outer() ? List.of("down_proj") : List.of("gate_proj", "up_proj");
        int rows = out / names.size();
        for (int part = 0; part < names.size(); part++) {
            float[] ups = update.ups(b, part, names.size());
            String name = GgufNames.tensor(update.path() + ".0." + names.get(part) + ".weight");
            entries.add(GgufWriter.GgufEntry.of(name + ".lora_a", BlockFormat.F32, Shape.of(experts, rank, in), a));
            entries.add(GgufWriter.GgufEntry.of(name + ".lora_b", BlockFormat.F32, Shape.of(experts, rows, rank), ups));
        }
    }

    private static float[] scaled(float[] values, double by) {
        float[] scaled = values.clone();
        for (int i = 0; by != 1 && i < scaled.length; i++) {
            scaled[i] = (float) (scaled[i] * by);
        }
        return scaled;
    }

    @Override
    public void close() {
        adapter.close();
        scope.close();
        files.close();
    }
}
