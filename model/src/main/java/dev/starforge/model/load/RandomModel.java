package dev.starforge.model.load;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.ModelException;
import dev.starforge.model.file.WeightSource;
import dev.starforge.model.gguf.GgufFileType;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.FileRegion;
import dev.starforge.tensor.Plane;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.Spec;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.codec.MatrixCodec;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.function.Consumer;
import java.util.function.Function;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/**
 * Random weights with the shapes of a published model, for benchmarks without the model file: speed depends on shapes and types,
 * not on values. A few rows of each type and width are generated and encoded. Every row of a matrix is one of them, rotated by a
 * row-dependent number of blocks, so weights are generated at copy speed and adjacent rows differ. The same preset and format
 * always give the same weights. Generated text is noise.
 */
final class RandomModel implements WeightSource {
    private static final int DRAWN = 16;
    private static final long SEED = 20240229;

    /** What the matrices of a model are stored in: one type for most, another where llama-quantize spends more bits. */
    enum WeightFormat {
        F32(DType.F32),
        F16(DType.F16),
        BF16(DType.BF16),
        Q8_0(DType.Q8_0),
        Q6_K(DType.Q6_K),
        Q5_K_M(DType.Q5_K),
        Q5_0(DType.Q5_0),
        Q4_K_M(DType.Q4_K),
        Q4_1(DType.Q4_1),
        Q4_0(DType.Q4_0),
        NF4(DType.NF4),
        NF4_DOUBLE(DType.NF4_DOUBLE),
        INT8_128(DType.INT8_128),
        GPTQ_128(DType.GPTQ_128);

        private final DType most;

        WeightFormat(DType most) {
            this.most = most;
        }

        private boolean isSmall() {
            return most.isQuantized() && !most.isPlanar() && this != Q8_0 && this != NF4;
        }

        /** The type of a matrix, of layer {@code layer} of {@code layers} where it is in one. */
        private DType of(String name, boolean head, int layer, int layers) {
            if (head) {
                return isSmall() ? DType.Q6_K : most;
            }
            boolean mixed = this == Q4_K_M || this == Q5_K_M;
            boolean sensitive =
                    name.contains(".v_proj.") || name.contains(".down_proj.") || name.contains("mlp.c_proj.");
            boolean spends = layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
            return mixed && sensitive && spends ? DType.Q6_K : most;
        }
    }

    /** The shapes of a published model. */
    private record Preset(
            String type,
            int vocabulary,
            int context,
            int width,
            int inner,
            int layers,
            int heads,
            int kvHeads,
            int headDim,
            double theta,
            int window,
            boolean tied) {
        /** Of each layer but the first dense ones; {@code shared} are those that every token takes. */
        private record ExpertShape(int routed, int chosen, int inner, int shared, int dense) {}

        private ExpertShape experts() {
            return switch (type) {
                case "mixtral" -> new ExpertShape(8, 2, inner, 0, 0);
                case "deepseek" -> new ExpertShape(64, 6, 1408, 2, 1);
                default -> new ExpertShape(0, 0, 0, 0, layers);
            };
        }

        ObjectNode config() {
            ObjectNode config = JsonNodeFactory.instance.objectNode();
            config.put("model_type", type);
            config.put("vocab_size", vocabulary);
            config.put("max_position_embeddings", context);
            config.put("hidden_size", width);
            config.put("intermediate_size", inner);
            config.put("num_hidden_layers", layers);
            config.put("num_attention_heads", heads);
            config.put("num_key_value_heads", kvHeads);
            config.put("head_dim", headDim);
            config.put("rope_theta", theta);
            config.put("tie_word_embeddings", tied);
            if (window > 0) {
                config.put("sliding_window", window);
            }
            if (type.equals("mixtral")) {
                config.put("num_local_experts", experts().routed())
                        .put("num_experts_per_tok", experts().chosen());
            }
            if (type.equals("deepseek")) {
                config.put("n_routed_experts", experts().routed())
                        .put("num_experts_per_tok", experts().chosen());
                config.put("n_shared_experts", experts().shared())
                        .put("first_k_dense_replace", experts().dense());
                config.put("moe_intermediate_size", experts().inner());
            }
            return config;
        }

        /** Names as HF has them, in the order of a file. */
        Map<String, Shape> tensors() {
            Map<String, Shape> all = new LinkedHashMap<>();
            boolean starcoder = type.equals("starcoder2");
            all.put("model.embed_tokens.weight", Shape.of(vocabulary, width));
            for (int layer = 0; layer < layers; layer++) {
                String path = "model.layers." + layer;
                norm(all, path + ".input_layernorm", starcoder);
                boolean bias = starcoder || type.equals("qwen2");
                matrix(all, path + ".self_attn.q_proj", heads * headDim, width, bias);
                matrix(all, path + ".self_attn.k_proj", kvHeads * headDim, width, bias);
                matrix(all, path + ".self_attn.v_proj", kvHeads * headDim, width, bias);
                matrix(all, path + ".self_attn.o_proj", width, heads * headDim, starcoder);
                norm(all, path + ".post_attention_layernorm", starcoder);
                if (starcoder) {
                    matrix(all, path + ".mlp.c_fc", inner, width, true);
                    matrix(all, path + ".mlp.c_proj", width, inner, true);
                } else if (layer < experts().dense()) {
                    gated(all, path + ".mlp", inner);
                } else if (type.equals("mixtral")) {
                    experts(all, path + ".block_sparse_moe", "w1", "w2", "w3");
                } else {
                    experts(all, path + ".mlp", "gate_proj", "down_proj", "up_proj");
                    gated(
                            all,
                            path + ".mlp.shared_experts",
                            experts().shared() * experts().inner());
                }
            }
            norm(all, "model.norm", starcoder);
            if (!tied) {
                all.put("lm_head.weight", Shape.of(vocabulary, width));
            }
            return all;
        }

        private void gated(Map<String, Shape> all, String path, int inner) {
            matrix(all, path + ".gate_proj", inner, width, false);
            matrix(all, path + ".up_proj", inner, width, false);
            matrix(all, path + ".down_proj", width, inner, false);
        }

        private void experts(Map<String, Shape> all, String path, String gate, String down, String up) {
            matrix(all, path + ".gate", experts().routed(), width, false);
            for (int expert = 0; expert < experts().routed(); expert++) {
                String prefix = path + ".experts." + expert + ".";
                matrix(all, prefix + gate, experts().inner(), width, false);
                matrix(all, prefix + down, width, experts().inner(), false);
                matrix(all, prefix + up, experts().inner(), width, false);
            }
        }

        private void norm(Map<String, Shape> all, String path, boolean bias) {
            all.put(path + ".weight", Shape.of(width));
            if (bias) {
                all.put(path + ".bias", Shape.of(width));
            }
        }

        private static void matrix(Map<String, Shape> all, String path, int rows, int columns, boolean bias) {
            all.put(path + ".weight", Shape.of(rows, columns));
            if (bias) {
                all.put(path + ".bias", Shape.of(rows));
            }
        }
    }

    private static final Map<String, Preset> PRESETS = presets();

    private static Map<String, Preset> presets() {
        Map<String, Preset> all = new LinkedHashMap<>();
        all.put("tiny", new Preset("llama", 512, 512, 256, 768, 2, 4, 2, 64, 1e4, 0, true));
        all.put("deepseek-moe-16b", new Preset("deepseek", 102400, 4096, 2048, 10944, 28, 16, 16, 128, 1e4, 0, false));
        all.put("llama-2-7b", new Preset("llama", 32000, 4096, 4096, 11008, 32, 32, 32, 128, 1e4, 0, false));
        all.put("llama-2-13b", new Preset("llama", 32000, 4096, 5120, 13824, 40, 40, 40, 128, 1e4, 0, false));
        all.put("llama-3-8b", new Preset("llama", 128256, 8192, 4096, 14336, 32, 32, 8, 128, 5e5, 0, false));
        all.put("llama-3.2-1b", new Preset("llama", 128256, 131072, 2048, 8192, 16, 32, 8, 64, 5e5, 0, true));
        all.put("llama-3.2-3b", new Preset("llama", 128256, 131072, 3072, 8192, 28, 24, 8, 128, 5e5, 0, true));
        all.put("mistral-7b", new Preset("mistral", 32000, 32768, 4096, 14336, 32, 32, 8, 128, 1e4, 4096, false));
        all.put("mixtral-8x7b", new Preset("mixtral", 32000, 32768, 4096, 14336, 32, 32, 8, 128, 1e6, 0, false));
        all.put("qwen2.5-7b", new Preset("qwen2", 152064, 32768, 3584, 18944, 28, 28, 4, 128, 1e6, 0, false));
        all.put("qwen2.5-coder-1.5b", new Preset("qwen2", 151936, 32768, 1536, 8960, 28, 12, 2, 128, 1e6, 0, true));
        all.put("qwen2.5-coder-7b", new Preset("qwen2", 152064, 32768, 3584, 18944, 28, 28, 4, 128, 1e6, 0, false));
        all.put("starcoder2-3b", new Preset("starcoder2", 49152, 16384, 3072, 12288, 30, 24, 2, 128, 1e6, 4096, true));
        all.put("starcoder2-7b", new Preset("starcoder2", 49152, 16384, 4608, 18432, 32, 36, 4, 128, 1e6, 4096, true));
        return all;
    }

    private final Path path;
    private final JsonConfig config;
    private final Map<String, Shape> shapes;
    private final Map<String, DType> types = new HashMap<>();
    private final Map<RowKind, byte[][]> drawn = new HashMap<>();

    /** Rows that were drawn once: they share a type, a width and what they are for. */
    private record RowKind(DType type, long width, boolean around1) {}

    private RandomModel(String name, Preset preset, WeightFormat format) {
        path = Path.of("random-" + name + "-" + format);
        config = JsonConfig.of(path, preset.config());
        shapes = preset.tensors();
        String head = preset.tied() ? "model.embed_tokens.weight" : "lm_head.weight";
        shapes.forEach((tensor, shape) -> {
            int layer = tensor.startsWith("model.layers.") ? Integer.parseInt(tensor.split("\\.")[2]) : 0;
            DType type = format.of(tensor, tensor.equals(head), layer, preset.layers());
            types.put(tensor, shape.rank() == 2 ? fitting(type, shape) : DType.F32);
        });
    }

    /** A type of smaller blocks where rows are not whole ones: as llama-quantize chooses it, or as a quantized base does. */
    private static DType fitting(DType type, Shape shape) {
        return type.isPlanar()
                ? shape.last() % type.blockElements() == 0 ? type : DType.Q8_0
                : GgufFileType.fitting(BlockFormat.of(type), shape).dtype();
    }

    /** A model of any config; what {@code types} leaves open is stored in 16 bits. */
    RandomModel(JsonConfig config, Map<String, Shape> shapes, Function<String, Optional<DType>> types) {
        this.path = config.path();
        this.config = config;
        this.shapes = shapes;
        shapes.forEach((name, shape) ->
                this.types.put(name, shape.rank() == 2 ? types.apply(name).orElse(DType.BF16) : DType.F32));
    }

    static List<String> presetNames() {
        return List.copyOf(PRESETS.keySet());
    }

    static RandomModel of(String preset, String format) {
        if (!PRESETS.containsKey(preset)) {
            throw new ModelException(Path.of(preset), "is no preset; known are " + String.join(", ", PRESETS.keySet()));
        }
        for (WeightFormat known : WeightFormat.values()) {
            if (known.name().equalsIgnoreCase(format)) {
                return new RandomModel(preset, PRESETS.get(preset), known);
            }
        }
        throw new ModelException(
                Path.of(preset), "format " + format + ": expected one of " + List.of(WeightFormat.values()));
    }

    JsonConfig config() {
        return config;
    }

    List<ModelFiles.TensorInfo> tensors() {
        List<ModelFiles.TensorInfo> all = new ArrayList<>();
        shapes.forEach((name, shape) -> all.add(
                new ModelFiles.TensorInfo(name, type(name).name(), shape, new Spec(type(name), shape).bytes())));
        return all;
    }

    @Override
    public Path path() {
        return path;
    }

    @Override
    public Shape shape(String name) {
        Shape shape = shapes.get(name);
        if (shape == null) {
            throw new ModelException(path, "has no tensor " + name);
        }
        return shape;
    }

    private DType type(String name) {
        DType type = types.get(name);
        if (type == null) {
            throw new ModelException(path, "has no tensor " + name);
        }
        return type;
    }

    @Override
    public Optional<FileRegion> region(String name) {
        return Optional.empty();
    }

    @Override
    public Optional<DType> storedType(String name) {
        return Optional.of(type(name));
    }

    @Override
    public void readRows(String name, long first, ByteBuffer into) {
        DType type = type(name);
        byte[][] rows = rows(new RowKind(type, shape(name).last(), name.endsWith("norm.weight")));
        long key = name.hashCode() * 0x9e3779b97f4a7c15L;
        for (long row = first; into.hasRemaining(); row++) {
            long mixed = (key + row) * 0xd1342543de82ef95L;
            byte[] whole = rows[(int) (mixed >>> 60)];
            int blocks = whole.length / type.blockBytes();
            int shift = (int) ((mixed >>> 32 & 0xffff) % blocks) * type.blockBytes();
            into.put(whole, shift, whole.length - shift).put(whole, 0, shift);
        }
    }

    /** Those of a matrix of the rows drawn, each over and over: any bytes of a plane are quants, or scales. */
    @Override
    public void readPlanes(String name, Consumer<ByteBuffer> piece) {
        Spec spec = new Spec(type(name), shape(name));
        byte[] few = rows(new RowKind(spec.dtype(), spec.shape().last(), false))[0];
        int from = 0;
        for (Plane plane : spec.dtype().planes(spec.height(), spec.shape().last())) {
            Plane drawn = plane(spec, plane.name());
            int bytes = (int) drawn.bytes();
            for (long at = 0; at < plane.bytes(); at += bytes) {
                piece.accept(ByteBuffer.wrap(few, from, (int) Math.min(bytes, plane.bytes() - at)));
            }
            from += bytes;
        }
    }

    private static Plane plane(Spec spec, String name) {
        return spec.dtype().planes(DRAWN, spec.shape().last()).stream()
                .filter(plane -> plane.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    @Override
    public void read(String name, long first, float[] out, int count) {
        DType type = type(name);
        if (type.isPlanar()) {
            Spec spec = new Spec(type, shape(name));
            int columns = (int) spec.shape().last();
            ByteBuffer matrix = ByteBuffer.allocate(Math.toIntExact(spec.bytes()));
            readPlanes(name, matrix::put);
            for (int at = 0; at < count; at += columns) {
                int row = (int) ((first + at) / columns);
                MatrixCodec.of(type).decode(matrix.rewind(), (int) spec.height(), columns, row, 0, columns, out, at);
            }
            return;
        }
        ByteBuffer bytes = ByteBuffer.allocate(Math.toIntExact(type.bytes(count)));
        readRows(name, first / shape(name).last(), bytes);
        BlockFormat.of(type).decode(bytes.flip(), 0, out, 0, count);
    }

    /**
     * Normal numbers whose products with a normal row are about 1; or, for the gain of a norm, close to 1. In a planar type they
     * are one matrix.
     */
    private synchronized byte[][] rows(RowKind wanted) {
        return drawn.computeIfAbsent(wanted, kind -> {
            Random random = new Random(SEED + kind.type().ordinal() * 31L + kind.width());
            int width = Math.toIntExact(kind.width());
            double spread = kind.around1() ? 0.05 : 1 / Math.sqrt(width);
            int together = kind.type().isPlanar() ? DRAWN : 1;
            Spec each = new Spec(kind.type(), Shape.of(together, width));
            byte[][] rows = new byte[DRAWN / together][(int) each.bytes()];
            float[] values = new float[together * width];
            for (byte[] row : rows) {
                for (int i = 0; i < values.length; i++) {
                    values[i] = (float) ((kind.around1() ? 1 : 0) + spread * random.nextGaussian());
                }
                MatrixCodec.of(kind.type()).encode(values, together, width, ByteBuffer.wrap(row));
            }
            return rows;
        });
    }
}
