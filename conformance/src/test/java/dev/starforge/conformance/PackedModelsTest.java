package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.Parameter;
import dev.starforge.model.Quantization;
import dev.starforge.model.convert.LoraMerger;
import dev.starforge.model.file.BitsAndBytes;
import dev.starforge.model.file.Safetensors;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.Int4Gptq;
import dev.starforge.tensor.codec.Nf4;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.NullOps;
import dev.starforge.tensor.device.Selection;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Folders quantized by other programs: projections stay quantized, and the model matches the one with dequantized weights. */
final class PackedModelsTest {
    private static final String LLAMA = """
        {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 64,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true%s}
        """;
    private static final String MIXTRAL = LLAMA.replace("\"llama\"", "\"mixtral\"")
            .replace("\"vocab_size\"", "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"vocab_size\"");
    private static final Precision STORED = Precision.FLOAT32.withWeightsAsStored();
    private static final int[] IDS = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7};

    @TempDir
    Path folder;

    private final Random random = new Random(20240229);

    private static Device open(String name) {
        return Selection.choose(name)
                .backend()
                .open(new DeviceOptions(0, name.equals("cpu") ? 2 : 1, Path.of("target")));
    }

    /** The names and shapes of the tensors of a model. */
    private static Map<String, Shape> tensors(String config) {
        try (Device device = open("reference")) {
            Scope shapes = new NullOps(device, Precision.FLOAT32, Fallback.QUIET).scope();
            return ModelSpec.of("config.json", config.formatted("")).tensors(shapes);
        }
    }

    private static boolean isProjection(String name, Shape shape) {
        return shape.rank() == 2 && name.startsWith("model.layers.") && !name.endsWith(".gate.weight");
    }

    private float[] normal(Shape shape, double deviation) {
        float[] values = new float[(int) shape.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) (deviation * random.nextGaussian()) + (shape.rank() == 1 ? 1 : 0);
        }
        return values;
    }

    private static Path write(Path folder, String config, List<SafetensorsFile.SafetensorsData> entries)
            throws IOException {
        Files.createDirectories(folder);
        SafetensorsFile.write(folder.resolve("model.safetensors"), entries);
        return Files.writeString(folder.resolve("config.json"), config).getParent();
    }

    /** Random quantized values, zero points from 1 to 15, and groups in random order or in that of the inputs. */
    private Int4Gptq gptq(Shape shape, int group, boolean actOrder) {
        int out = (int) shape.dim(0);
        int in = (int) shape.dim(1);
        int groups = group == -1 ? 1 : in / group;
        byte[] quants = new byte[out * in];
        byte[] zeros = new byte[groups * out];
        short[] scales = new short[groups * out];
        for (int i = 0; i < quants.length; i++) {
            quants[i] = (byte) random.nextInt(16);
        }
        for (int i = 0; i < zeros.length; i++) {
            zeros[i] = (byte) (1 + random.nextInt(15));
            scales[i] = Float.floatToFloat16(0.004f + 0.004f * random.nextFloat());
        }
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < in; i++) {
            order.add(group == -1 ? 0 : i / group);
        }
        if (actOrder) {
            Collections.shuffle(order, random);
        }
        int[] gIdx = order.stream().mapToInt(Integer::intValue).toArray();
        return Int4Gptq.pack(quants, out, in, zeros, scales, gIdx);
    }

    private static List<SafetensorsFile.SafetensorsData> entries(String path, Int4Gptq w) {
        long groups = w.scales().length / w.out();
        ByteBuffer scales = ByteBuffer.allocate(2 * w.scales().length).order(ByteOrder.LITTLE_ENDIAN);
        scales.asShortBuffer().put(w.scales());
        return List.of(
                SafetensorsFile.SafetensorsData.of(path + ".qweight", Shape.of(w.in() / 8, w.out()), w.qweight()),
                SafetensorsFile.SafetensorsData.of(path + ".qzeros", Shape.of(groups, w.out() / 8), w.qzeros()),
                new SafetensorsFile.SafetensorsData(path + ".scales", "F16", Shape.of(groups, w.out()), scales),
                SafetensorsFile.SafetensorsData.of(path + ".g_idx", Shape.of(w.in()), w.gIdx()));
    }

    private static float[] logits(Device device, ModelFiles files, Scope weights, List<Parameter> parameters) {
        Model model = files.load(weights, STORED, parameters);
        try (Scope step = new Scope(device)) {
            return device.floats(model.forward(
                    device.ops(step, STORED, Fallback.FORBIDDEN),
                    Batches.packed(model, step, List.of(IDS)),
                    KvCache.NONE));
        }
    }

    private static Set<DType> types(List<Parameter> parameters) {
        return parameters.stream()
                .map(each -> each.tensor().dtype())
                .filter(DType::isQuantized)
                .collect(Collectors.toSet());
    }

    /** Compares the models of the packed and the unquantized folder on one device. */
    private static void assertSame(String backend, Path packed, Path plain, DType type) {
        try (Device device = open(backend);
                ModelFiles quantized = ModelFiles.open(packed);
                ModelFiles dense = ModelFiles.open(plain);
                Scope scope = new Scope(device)) {
            List<Parameter> parameters = new ArrayList<>();
            float[] ours = logits(device, quantized, scope, parameters);
            assertThat(types(parameters)).containsExactly(type);
            assertThat(quantized.spec().quantized()).containsExactly(type);
            float[] wanted = logits(device, dense, scope, new ArrayList<>());
            if (backend.equals("reference")) {
                assertThat(ours).isEqualTo(wanted);
            }
            float largest = 0;
            for (float logit : wanted) {
                largest = Math.max(largest, Math.abs(logit));
            }
            assertThat(largest).isBetween(0.1f, 100f);
            for (int i = 0; i < ours.length; i++) {
                assertThat(ours[i]).as("logit %d", i).isCloseTo(wanted[i], within(tolerance(type) * largest));
            }
            quantized.requireFinite(device);
        }
    }

    /** NF4 panels use a different summation order than floats. */
    private static float tolerance(DType type) {
        return type == DType.NF4 || type == DType.NF4_DOUBLE ? 4e-6f : 1e-6f;
    }

    @ParameterizedTest
    @CsvSource({
        "llama, 128, true, GPTQ_128",
        "llama, 128, false, GPTQ_128",
        "llama, 64, true, GPTQ_64",
        "llama, 32, true, GPTQ_32",
        "llama, -1, false, GPTQ_CHANNEL",
        "mixtral, 128, true, GPTQ_128"
    })
    void gptqStaysQuantized(String architecture, int group, boolean actOrder, DType type) throws IOException {
        String config = architecture.equals("llama") ? LLAMA : MIXTRAL;
        List<SafetensorsFile.SafetensorsData> packed = new ArrayList<>();
        List<SafetensorsFile.SafetensorsData> plain = new ArrayList<>();
        tensors(config).forEach((name, shape) -> {
            if (isProjection(name, shape)) {
                Int4Gptq w = gptq(shape, group, actOrder);
                packed.addAll(entries(name.substring(0, name.length() - ".weight".length()), w));
                plain.add(SafetensorsFile.SafetensorsData.of(name, shape, w.decode()));
            } else {
                SafetensorsFile.SafetensorsData entry =
                        SafetensorsFile.SafetensorsData.of(name, shape, normal(shape, shape.rank() == 1 ? 0.05 : 0.3));
                packed.add(entry);
                plain.add(entry);
            }
        });
        String quantization = ", \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": "
                + group + ", \"desc_act\": " + actOrder + ", \"sym\": false}";
        write(folder.resolve("packed"), config.formatted(quantization), packed);
        write(folder.resolve("plain"), config.formatted(""), plain);
        for (String backend : List.of("reference", "cpu")) {
            assertSame(backend, folder.resolve("packed"), folder.resolve("plain"), type);
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void bitsAndBytesStaysQuantized(boolean nested) throws IOException {
        List<SafetensorsFile.SafetensorsData> packed = new ArrayList<>();
        List<SafetensorsFile.SafetensorsData> plain = new ArrayList<>();
        tensors(LLAMA).forEach((name, shape) -> {
            float[] values = normal(shape, shape.rank() == 1 ? 0.05 : 0.06);
            if (isProjection(name, shape)) {
                Nf4 w = nested ? Nf4.encodeDouble(values, 64) : Nf4.encode(values, 64);
                packed.addAll(BitsAndBytes.entries(name, new BitsAndBytes.Nf4Weight(shape, w), "float32"));
                plain.add(SafetensorsFile.SafetensorsData.of(name, shape, w.decode()));
            } else {
                packed.add(SafetensorsFile.SafetensorsData.of(name, shape, values));
                plain.add(SafetensorsFile.SafetensorsData.of(name, shape, values));
            }
        });
        String quantization = ", \"quantization_config\": {\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true,"
                + " \"bnb_4bit_quant_type\": \"nf4\", \"bnb_4bit_use_double_quant\": " + nested + "}";
        write(folder.resolve("packed"), LLAMA.formatted(quantization), packed);
        write(folder.resolve("plain"), LLAMA.formatted(""), plain);
        for (String backend : List.of("reference", "cpu")) {
            assertSame(
                    backend, folder.resolve("packed"), folder.resolve("plain"), nested ? DType.NF4_DOUBLE : DType.NF4);
        }
    }

    /** Onto what others have quantized an adapter is merged in floats, and the folder no longer says that it is quantized. */
    @Test
    void mergedFolderIsUnquantized() throws IOException {
        Path golden = TinyModel.GOLDEN.resolve("starcoder2");
        String config = Files.readString(golden.resolve("config.json"));
        List<SafetensorsFile.SafetensorsData> packed = new ArrayList<>();
        List<SafetensorsFile.SafetensorsData> plain = new ArrayList<>();
        try (Safetensors weights = Safetensors.open(golden)) {
            weights.tensors().forEach((name, stored) -> {
                float[] values = weights.readFloats(name);
                if (isProjection(name, stored.shape())) {
                    Nf4 w = Nf4.encodeDouble(values, 64);
                    packed.addAll(BitsAndBytes.entries(name, new BitsAndBytes.Nf4Weight(stored.shape(), w), "float32"));
                    plain.add(SafetensorsFile.SafetensorsData.of(name, stored.shape(), w.decode()));
                } else {
                    packed.add(SafetensorsFile.SafetensorsData.of(name, stored.shape(), values));
                    plain.add(SafetensorsFile.SafetensorsData.of(name, stored.shape(), values));
                }
            });
        }
        String quantization = "{\"quantization_config\": {\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true,"
                + " \"bnb_4bit_quant_type\": \"nf4\"},";
        write(folder.resolve("packed"), config.replaceFirst("\\{", quantization), packed);
        write(folder.resolve("plain"), config, plain);
        try (Device device = open("cpu")) {
            for (String base : List.of("packed", "plain")) {
                try (LoraMerger merger =
                        new LoraMerger(folder.resolve(base), golden.resolve("adapter"), Quantization.NONE, device)) {
                    merger.writeFolder(folder.resolve(base + "-merged"), "F32", Long.MAX_VALUE);
                }
            }
        }
        assertThat(folder.resolve("packed-merged").resolve("config.json"))
                .content()
                .doesNotContain("quantization_config");
        try (Safetensors ours = Safetensors.open(folder.resolve("packed-merged"));
                Safetensors wanted = Safetensors.open(folder.resolve("plain-merged"))) {
            assertThat(ours.tensors().keySet()).isEqualTo(wanted.tensors().keySet());
            for (String name : wanted.tensors().keySet()) {
                assertThat(ours.floats(name)).as(name).isEqualTo(wanted.floats(name));
            }
        }
    }

    /** The device memory of a base model, in bits per weight of its projections. */
    @ParameterizedTest
    @CsvSource({"nf4, 4.5", "nf4-double, 4.13", "int8-128, 8.13", "int8-64, 8.5"})
    void baseMemoryMatchesItsFormat(String quantization, double bits) throws IOException {
        String config = LLAMA.replace("\"hidden_size\": 256", "\"hidden_size\": 1024");
        List<SafetensorsFile.SafetensorsData> plain = new ArrayList<>();
        tensors(config)
                .forEach((name, shape) ->
                        plain.add(SafetensorsFile.SafetensorsData.of(name, shape, normal(shape, 0.1))));
        write(folder, config.formatted(""), plain);
        for (String backend : List.of("reference", "cpu")) {
            try (Device device = open(backend);
                    ModelFiles files = ModelFiles.open(folder).quantized(Quantization.parse(quantization));
                    Scope scope = new Scope(device)) {
                List<Parameter> parameters = new ArrayList<>();
                files.load(scope, STORED, parameters);
                long weights = 0;
                long others = 0;
                for (Parameter parameter : parameters) {
                    boolean quantized = parameter.tensor().dtype().isQuantized();
                    weights += quantized ? parameter.tensor().shape().size() : 0;
                    others += quantized ? 0 : parameter.tensor().bytes();
                }
                assertThat(weights).isGreaterThan(1_000_000);
                assertThat(8.0 * (scope.usedBytes() - others) / weights).isCloseTo(bits, within(0.02));
            }
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{\"quant_method\": \"awq\"} | quant_method: expected gptq or bitsandbytes, got \"awq\"",
                "{\"quant_method\": \"quip\"} | quant_method: expected gptq or bitsandbytes, got \"quip\"",
                "{\"quant_method\": \"exl3\"} | quant_method: expected gptq or bitsandbytes, got \"exl3\"",
                "{\"quant_method\": \"gptq\", \"bits\": 8, \"group_size\": 128} | bits: expected 4: GPTQ is supported with 4 bits",
                "{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 0} | group_size: expected -1",
                "{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 32, \"checkpoint_format\": \"gptq_v2\"} |"
                        + " checkpoint_format",
                "{\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": true} | load_in_4bit: expected true",
                "{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true} | bnb_4bit_quant_type: expected nf4"
            })
    void rejectsUnsupportedQuantization(String quantization, String message) throws IOException {
        write(
                folder,
                LLAMA.formatted(", \"quantization_config\": " + quantization),
                List.of(SafetensorsFile.SafetensorsData.of("x", Shape.of(1), 1f)));
        assertThatThrownBy(() -> ModelFiles.open(folder))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("quantization_config." + message);
    }

    /** A group that no input can have, scales that are no numbers, and as many as another group size has. */
    @Test
    void rejectsDamagedGptq() throws IOException {
        String name = "model.layers.0.self_attn.q_proj";
        Int4Gptq good = gptq(Shape.of(256, 256), 128, false);
        int[] gIdx = good.gIdx().clone();
        gIdx[7] = 2;
        short[] scales = good.scales().clone();
        scales[5] = (short) 0x7c00;
        List<SafetensorsFile.SafetensorsData> wrongGroup = new ArrayList<>(entries(name, good));
        wrongGroup.set(3, SafetensorsFile.SafetensorsData.of(name + ".g_idx", Shape.of(256), gIdx));
        Int4Gptq infinite = new Int4Gptq(256, 256, good.qweight(), good.qzeros(), scales, good.gIdx());
        assertRefused(wrongGroup, "g_idx: group 2, expected 0..1");
        assertRefused(entries(name, infinite), "scales: element 5 is Infinity");
        assertRefused(entries(name, gptq(Shape.of(256, 256), 64, false)), "scales: expected 2 x 256, got [4, 256]");
    }

    private void assertRefused(List<SafetensorsFile.SafetensorsData> entries, String message) throws IOException {
        String quantization =
                ", \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128}";
        write(folder, LLAMA.formatted(quantization), entries);
        try (ModelFiles files = ModelFiles.open(folder)) {
            assertThatThrownBy(() -> files.weights().readPlanes("model.layers.0.self_attn.q_proj.weight", piece -> {}))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining(message);
        }
    }
}
