package dev.starforge.cli.command;

import static dev.starforge.cli.command.CommandOutcome.run;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starforge.model.JsonConfig;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.gguf.GgufFile;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Philox;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Shape;
import dev.starforge.tensor.codec.BlockFormat;
import dev.starforge.tensor.codec.Int8Groups;
import dev.starforge.tensor.codec.Nf4;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.text.Tokenizers;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Merged models of every architecture against what PEFT computed with base and adapter. */
final class MergeCommandTest {
    private static final Path MODELS = Path.of("..", "golden", "models");

    @TempDir
    Path folder;

    static Stream<Path> models() throws IOException {
        List<Path> models = new ArrayList<>();
        try (Stream<Path> all = Files.list(MODELS)) {
            all.filter(model -> Files.isDirectory(model.resolve("adapter")))
                    .sorted()
                    .forEach(models::add);
        }
        assertThat(models).hasSizeGreaterThan(12);
        return models.stream();
    }

    /** The logits of the golden inputs, and the range of PEFT's. */
    private static double worst(Path merged, Path golden) {
        try (Device device = Selection.choose("cpu").backend().open(new DeviceOptions(0, 0, Path.of("unused")));
                SafetensorsFile expected = SafetensorsFile.open(golden.resolve("expected.safetensors"));
                ModelFiles files = ModelFiles.open(merged);
                Scope weights = new Scope(device);
                Scope step = new Scope(device)) {
            boolean rounded = JsonConfig.read(golden.resolve("expected.json"))
                    .string("dtype", "torch.float32")
                    .equals("torch.bfloat16"); // rotary frequencies, too: docs/adr/0003
            Precision precision = Precision.FLOAT32.withRotary(rounded ? DType.BF16 : DType.F32);
            Model model = files.load(weights, precision);
            int length = (int) expected.tensor("input_ids").shape().last();
            int[] flat = expected.ints("input_ids");
            List<int[]> texts = new ArrayList<>();
            for (int at = 0; at < flat.length; at += length) {
                texts.add(Arrays.copyOfRange(flat, at, at + length));
            }
            var ops = device.ops(step, Precision.FLOAT32, Fallback.FORBIDDEN);
            float[] ours = device.floats(model.forward(ops, Batches.packed(model, step, texts), KvCache.NONE));
            float[] theirs = expected.floats("adapter_logits");
            double least = Double.MAX_VALUE;
            double most = -Double.MAX_VALUE;
            double worst = 0;
            for (int i = 0; i < theirs.length; i++) {
                least = Math.min(least, theirs[i]);
                most = Math.max(most, theirs[i]);
                worst = Math.max(worst, Math.abs(ours[i] - theirs[i]));
            }
            return worst / (most - least);
        }
    }

    @ParameterizedTest
    @MethodSource("models")
    void mergedFoldersGiveWhatPeftGives(Path golden) {
        Path out = folder.resolve("merged");
        CommandOutcome outcome = run(
                "merge",
                golden.resolve("adapter").toString(),
                "--base",
                golden.toString(),
                "--out",
                out.toString(),
                "--type",
                "F32",
                "--shard-bytes",
                "100000",
                "--device",
                "cpu",
                "--json");
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        assertThat(outcome.json().path("proved").booleanValue()).isTrue();
        assertThat(out.resolve("model.safetensors.index.json")).isRegularFile();
        assertThat(out.resolve("config.json")).isRegularFile();
        assertThat(worst(out, golden)).isLessThan(2e-3);
    }

    @ParameterizedTest
    @MethodSource("models")
    void mergedGgufFilesAreProvedAndAdaptersAreWritten(Path golden) {
        Path base = golden.resolve("model.gguf");
        if (!Files.exists(base)) {
            assertThat(golden.getFileName().toString())
                    .as("a golden model without GGUF")
                    .startsWith("phi");
            return;
        }
        Path out = folder.resolve("merged.gguf");
        Path adapter = folder.resolve("adapter.gguf");
        boolean split = golden.getFileName().toString().startsWith("deepseek");
        if (split) {
            CommandOutcome refused = run(
                    "merge",
                    golden.resolve("adapter").toString(),
                    "--base",
                    base.toString(),
                    "--gguf-adapter",
                    adapter.toString(),
                    "--device",
                    "cpu");
            assertThat(refused.code()).isEqualTo(1);
            assertThat(refused.err()).contains("supports no adapter for it");
        }
        List<String> command = new ArrayList<>(List.of(
                "merge",
                golden.resolve("adapter").toString(),
                "--base",
                base.toString(),
                "--out",
                out.toString(),
                "--device",
                "cpu",
                "--json"));
        if (!split) {
            command.addAll(List.of("--gguf-adapter", adapter.toString()));
        }
        CommandOutcome outcome = run(command.toArray(String[]::new));
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        assertThat(outcome.json().path("proved").booleanValue()).isTrue();
        if (split) {
            return;
        }
        try (GgufFile file = GgufFile.open(adapter);
                GgufFile model = GgufFile.open(base)) {
            assertThat(file.string("general.type")).isEqualTo("adapter");
            assertThat(file.string("general.architecture")).isEqualTo(model.string("general.architecture"));
            assertThat(file.tensors()).isNotEmpty();
            file.tensors().values().forEach(tensor -> {
                String name = tensor.name().substring(0, tensor.name().lastIndexOf('.'));
                assertThat(model.tensors()).containsKey(name);
                int axis = tensor.name().endsWith(".lora_a") ? -1 : -2;
                assertThat(tensor.shape().dim(axis))
                        .isEqualTo(model.tensor(name).shape().dim(axis));
            });
        }
    }

    /** From a folder to GGUF: what PEFT computes, and the tensors that llama.cpp's converter writes. */
    @ParameterizedTest
    @MethodSource("models")
    void foldersBecomeGgufFiles(Path golden) {
        Path out = folder.resolve("merged.gguf");
        CommandOutcome outcome = export(golden, golden, out, "--type", "F32");
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        assertThat(outcome.json().path("proved").booleanValue()).isTrue();
        assertThat(outcome.json().path("format").stringValue()).isEqualTo("gguf");
        assertThat(outcome.json().has("note"))
                .isEqualTo(!JsonConfig.read(golden.resolve("config.json")).isUnset("sliding_window"));
        assertThat(worst(out, golden)).isLessThan(2e-3);
        assertThat(Tokenizers.require(out, "a test").encode("int main() { return 42; }", true))
                .isEqualTo(Tokenizers.require(golden, "a test").encode("int main() { return 42; }", true));
        if (!Files.exists(golden.resolve("model.gguf"))) {
            return;
        }
        try (GgufFile ours = GgufFile.open(out);
                GgufFile theirs = GgufFile.open(golden.resolve("model.gguf"))) {
            assertThat(ours.tensors().keySet())
                    .containsExactlyInAnyOrderElementsOf(theirs.tensors().keySet());
            theirs.tensors()
                    .forEach((name, tensor) ->
                            assertThat(ours.tensor(name).shape()).as(name).isEqualTo(tensor.shape()));
            theirs.metadata().forEach((key, value) -> {
                boolean ownWay = key.startsWith("general.")
                        || key.endsWith(".scores") // theirs are all -1000
                        || key.endsWith("token_type")
                        || key.endsWith("add_sep_token")
                        || key.endsWith("eos_token_id") // theirs came from another tokenizer's settings
                        || key.equals("phi2.feed_forward_length"); // four times the width, whatever the model has
                if (!ownWay) {
                    assertThat(ours.metadata().get(key)).as(key).isEqualTo(value);
                }
            });
        }
    }

    /** From GGUF to a folder: proved, and its config says what the original's says. */
    @ParameterizedTest
    @MethodSource("models")
    void ggufFilesBecomeFolders(Path golden) {
        Path base = golden.resolve("model.gguf");
        if (!Files.exists(base)) {
            return;
        }
        Path out = folder.resolve("merged");
        CommandOutcome outcome = export(golden, base, out, "--format", "hf");
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        assertThat(outcome.json().path("proved").booleanValue()).isTrue();
        JsonNode ours = json(out.resolve("config.json"));
        json(golden.resolve("config.json")).properties().forEach(entry -> {
            boolean lost = List.of("dtype", "sliding_window", "rope_parameters", "eos_token_id")
                    .contains(entry.getKey());
            lost |= golden.endsWith("mistral")
                    && List.of("architectures", "model_type").contains(entry.getKey());
            if (ours.has(entry.getKey()) && !lost && !entry.getValue().isNull()) {
                String expected = entry.getValue().isNumber()
                        ? "" + entry.getValue().floatValue()
                        : entry.getValue().toString();
                String actual = ours.get(entry.getKey()).isNumber()
                        ? "" + ours.get(entry.getKey()).floatValue()
                        : ours.get(entry.getKey()).toString();
                assertThat(actual).as(entry.getKey()).isEqualTo(expected);
            }
        });
        assertThat(ours.has("num_attention_heads")).isTrue();
        assertThat(ours.has("q_lora_rank")).isEqualTo(golden.toString().contains("deepseek"));
        assertThat(ours.path("rope_parameters").has("rope_type")).isTrue();
        boolean scored = outcome.json().has("note");
        assertThat(Files.exists(out.resolve("tokenizer.json"))).isNotEqualTo(scored);
        if (!scored) {
            assertThat(Tokenizers.require(out, "a test").encode("int main() { return 42; }", true))
                    .isEqualTo(Tokenizers.require(golden, "a test").encode("int main() { return 42; }", true));
        }
    }

    /** Without an adapter: the same file that llama.cpp's converter writes, but for what is said there. */
    @ParameterizedTest
    @MethodSource("models")
    void foldersAreExported(Path golden) {
        Path out = folder.resolve("model.gguf");
        CommandOutcome outcome = run("export", golden.toString(), "--out", out.toString(), "--device", "cpu", "--json");
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        assertThat(outcome.json().path("proved").booleanValue()).isTrue();
        if (!Files.exists(golden.resolve("model.gguf"))) {
            return;
        }
        try (GgufFile ours = GgufFile.open(out);
                GgufFile theirs = GgufFile.open(golden.resolve("model.gguf"))) {
            theirs.tensors().forEach((name, tensor) -> {
                assertThat(ours.tensor(name).format()).as(name).isEqualTo(tensor.format());
                if (!name.equals("rope_freqs.weight")) {
                    assertThat(ours.readFloats(name)).as(name).isEqualTo(theirs.readFloats(name));
                }
            });
        }
    }

    @Test
    void anExportIsAGgufFileOfAFolder() {
        Path gguf = MODELS.resolve("llama2/model.gguf");
        CommandOutcome refused =
                run("export", gguf.toString(), "--out", folder.resolve("a.gguf").toString(), "--device", "cpu");
        assertThat(refused.code()).isEqualTo(1);
        assertThat(refused.err()).contains("is already a GGUF file; expected a folder with safetensors");
        assertThat(run("export", gguf.toString(), "--out", folder.resolve("a").toString())
                        .code())
                .isEqualTo(2);
        assertThat(folder).isEmptyDirectory();
    }

    private static JsonNode json(Path file) {
        try {
            return new JsonMapper().readTree(Files.readString(file));
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private static CommandOutcome export(Path golden, Path base, Path out, String... more) {
        List<String> command = new ArrayList<>(List.of(
                "merge",
                golden.resolve("adapter").toString(),
                "--base",
                base.toString(),
                "--out",
                out.toString(),
                "--device",
                "cpu",
                "--json"));
        command.addAll(List.of(more));
        return run(command.toArray(String[]::new));
    }

    @Test
    void whatAGgufFileCannotSayIsRefused() throws IOException {
        Path model = folder.resolve("model");
        Files.createDirectories(model);
        for (String name : List.of("config.json", "model.safetensors", "tokenizer.json")) {
            Files.copy(MODELS.resolve("qwen2_moe").resolve(name), model.resolve(name));
        }
        Path config = model.resolve("config.json");
        String changed = Files.readString(config).replace("\"norm_topk_prob\": false", "\"norm_topk_prob\": true");
        Files.writeString(config, changed);
        Path golden = MODELS.resolve("qwen2_moe");
        CommandOutcome refused = export(golden, model, folder.resolve("merged.gguf"));
        assertThat(refused.code()).isEqualTo(1);
        assertThat(refused.err())
                .contains("config.json: key norm_topk_prob: expected false")
                .doesNotContain("\tat ");
        assertThat(folder.resolve("merged.gguf")).doesNotExist();
    }

    @Test
    void formsAndTypesThatDoNotGoTogetherAreRefused() {
        Path golden = MODELS.resolve("llama2");
        Path out = folder.resolve("merged.gguf");
        assertThat(export(golden, golden, folder.resolve("merged"), "--format", "gguf")
                        .err())
                .contains("expected a .gguf file");
        assertThat(export(golden, golden, out, "--format", "onnx").err()).contains("expected hf or gguf, got onnx");
    }

    /** The golden adapter as if it had been trained on a quantized base, which its file says. */
    private Path trainedOn(Path golden, String quantization) throws IOException {
        Path adapter = Files.createDirectories(folder.resolve("trained-on-" + quantization));
        Files.copy(golden.resolve("adapter/adapter_config.json"), adapter.resolve("adapter_config.json"));
        ByteBuffer file = ByteBuffer.wrap(Files.readAllBytes(golden.resolve("adapter/adapter_model.safetensors")))
                .order(ByteOrder.LITTLE_ENDIAN);
        byte[] header = new byte[(int) file.getLong()];
        file.get(header);
        String said = new String(header, StandardCharsets.UTF_8)
                .replaceFirst(
                        "\"__metadata__\": ?\\{",
                        "\"__metadata__\":{\"starforge.base_quantization\":\"" + quantization + "\",");
        assertThat(said).contains(quantization);
        byte[] longer = said.getBytes(StandardCharsets.UTF_8);
        ByteBuffer written =
                ByteBuffer.allocate(8 + longer.length + file.remaining()).order(ByteOrder.LITTLE_ENDIAN);
        written.putLong(longer.length).put(longer).put(file);
        Files.write(adapter.resolve("adapter_model.safetensors"), written.array());
        return adapter;
    }

    private CommandOutcome merge(Path adapter, Path base, Path out, String... further) {
        List<String> command = new ArrayList<>(List.of(
                "merge",
                adapter.toString(),
                "--base",
                base.toString(),
                "--out",
                out.toString(),
                "--device",
                "cpu",
                "--json"));
        command.addAll(List.of(further));
        return run(command.toArray(String[]::new));
    }

    /** A matrix of a block as it is in a file, and as int8 groups or NF4 make it. */
    private static Map<String, float[]> matrices(Path model, String quantization) {
        Map<String, float[]> matrices = new TreeMap<>();
        try (SafetensorsFile file = SafetensorsFile.open(model.resolve("model.safetensors"))) {
            for (SafetensorsFile.SafetensorsTensor tensor : file.tensors().values()) {
                float[] w = file.readFloats(tensor.name());
                boolean block = tensor.name().contains(".layers.")
                        && tensor.shape().rank() == 2
                        && !tensor.name().endsWith("gate.weight");
                if (block && quantization.equals("nf4-double")) {
                    w = Nf4.encodeDouble(w, 64).decode();
                } else if (block && quantization.equals("int8-128")) {
                    w = Int8Groups.encode(
                                    w,
                                    (int) tensor.shape().dim(0),
                                    (int) tensor.shape().dim(1),
                                    128)
                            .decode();
                }
                matrices.put(tensor.name(), w);
            }
        }
        return matrices;
    }

    /** What is merged is what the adapter was trained on, or on request what the base's file has; both are proved. */
    @ParameterizedTest
    @MethodSource("models")
    void adaptersOfQuantizedBasesAreMergedOntoWhatTheyWereTrainedOn(Path golden) throws IOException {
        Map<String, float[]> plain = matrices(golden, "none");
        Path stored = folder.resolve("stored");
        assertThat(merge(golden.resolve("adapter"), golden, stored, "--type", "F32")
                        .code())
                .isZero();
        Map<String, float[]> onto = matrices(stored, "none");
        for (String quantization : List.of("nf4-double", "int8-128")) {
            Path adapter = trainedOn(golden, quantization);
            Path out = folder.resolve(quantization);
            CommandOutcome outcome = merge(adapter, golden, out, "--type", "F32");
            assertThat(outcome.err()).isEmpty();
            assertThat(outcome.code()).isZero();
            assertThat(outcome.json().path("proved").booleanValue()).isTrue();
            assertThat(outcome.json().path("trained_on").stringValue()).isEqualTo(quantization);
            assertThat(outcome.json().path("merged_onto").stringValue()).isEqualTo(quantization);
            Map<String, float[]> base = matrices(golden, quantization);
            matrices(out, "none").forEach((name, merged) -> {
                for (int i = 0; i < merged.length; i++) {
                    float update = onto.get(name)[i] - plain.get(name)[i];
                    assertThat(merged[i])
                            .as(name)
                            .isCloseTo(base.get(name)[i] + update, within(1e-6f + 1e-6f * Math.abs(merged[i])));
                }
            });
            Path again = folder.resolve(quantization + "-stored");
            outcome = merge(adapter, golden, again, "--type", "F32", "--onto", "stored");
            assertThat(outcome.code()).isZero();
            assertThat(outcome.json().path("merged_onto").stringValue()).isEqualTo("none");
            matrices(again, "none")
                    .forEach((name, merged) -> assertThat(merged).as(name).isEqualTo(onto.get(name)));
        }
    }

    /** A GGUF base of floats keeps its form, with the numbers that were trained on. */
    @Test
    void aGgufBaseOfFloatsIsMergedOntoWhatWasTrainedOn() throws IOException {
        Path golden = MODELS.resolve("qwen3_moe");
        Path out = folder.resolve("merged.gguf");
        CommandOutcome outcome = merge(trainedOn(golden, "nf4-double"), golden.resolve("model.gguf"), out);
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.json().path("proved").booleanValue()).isTrue();
        try (GgufFile merged = GgufFile.open(out);
                GgufFile base = GgufFile.open(golden.resolve("model.gguf"))) {
            String expert = "blk.0.ffn_gate_exps.weight";
            assertThat(merged.tensor(expert).format())
                    .isEqualTo(base.tensor(expert).format());
            assertThat(merged.readFloats(expert)).isNotEqualTo(base.readFloats(expert));
            assertThat(merged.readFloats("token_embd.weight")).isEqualTo(base.readFloats("token_embd.weight"));
        }
    }

    /** Two bits cannot hold what an adapter adds; sixteen can, and what it does not touch stays in two. */
    @Test
    void mergedMatricesOfAQuantizedFileMayHaveMoreBits() throws IOException {
        Path base = Path.of("..", "golden", "gguf", "micro-Q2_K.gguf");
        Path adapter = Files.createDirectories(folder.resolve("adapter"));
        Files.writeString(
                adapter.resolve("adapter_config.json"),
                "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 2, \"target_modules\": [\"v_proj\"]}");
        List<SafetensorsFile.SafetensorsData> entries = new ArrayList<>();
        try (GgufFile file = GgufFile.open(base)) {
            Shape shape = file.tensor("blk.0.attn_v.weight").shape();
            String path = "base_model.model.model.layers.0.self_attn.v_proj.lora_";
            for (boolean down : new boolean[] {true, false}) {
                Shape each = down ? Shape.of(2, shape.dim(1)) : Shape.of(shape.dim(0), 2);
                float[] values = new float[(int) each.size()];
                for (int i = 0; i < values.length; i++) {
                    values[i] = 0.3f * (Philox.uniform(down ? 1 : 2, 0, i) - 0.5f);
                }
                entries.add(SafetensorsFile.SafetensorsData.of(path + (down ? "A" : "B") + ".weight", each, values));
            }
        }
        SafetensorsFile.write(adapter.resolve("adapter_model.safetensors"), entries);
        Path out = folder.resolve("merged.gguf");
        CommandOutcome outcome = merge(adapter, base, out, "--type", "BF16");
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.json().path("proved").booleanValue()).isTrue();
        double error =
                outcome.json().path("largest_difference_to_base_plus_adapter").doubleValue();
        assertThat(error)
                .isLessThan(
                        0.02 * outcome.json().path("largest_difference_to_base").doubleValue());
        try (GgufFile merged = GgufFile.open(out)) {
            assertThat(merged.tensor("blk.0.attn_v.weight").format()).isEqualTo(BlockFormat.BF16);
            assertThat(merged.tensor("blk.0.attn_k.weight").format()).isEqualTo(BlockFormat.Q2_K);
        }
    }

    @Test
    void whatIsWrongWithAnAdapterOfAQuantizedBaseIsNamed() throws IOException {
        Path golden = MODELS.resolve("starcoder2");
        Path out = folder.resolve("merged");
        CommandOutcome outcome = merge(trainedOn(golden, "nf9"), golden, out);
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err())
                .contains("trained-on-nf9/adapter_model.safetensors")
                .contains("got nf9");
        Path adapter = trainedOn(golden, "nf4-double");
        outcome = merge(adapter, MODELS.resolve("llama2"), out);
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err()).startsWith("starforge: ").contains("adapter_model.safetensors");
        outcome = merge(adapter, golden, out, "--onto", "elsewhere");
        assertThat(outcome.code()).isEqualTo(2);
        assertThat(outcome.err()).contains("expected trained or stored, got elsewhere");
        byte[] bytes = Files.readAllBytes(adapter.resolve("adapter_model.safetensors"));
        Files.write(adapter.resolve("adapter_model.safetensors"), Arrays.copyOf(bytes, bytes.length / 2));
        outcome = merge(adapter, golden, out);
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err())
                .contains("trained-on-nf4-double/adapter_model.safetensors")
                .doesNotContain("\tat ");
        assertThat(out).doesNotExist();
    }

    @Test
    void anAdapterOfAnotherModelIsNamed() {
        CommandOutcome outcome = run(
                "merge",
                MODELS.resolve("llama2/adapter").toString(),
                "--base",
                MODELS.resolve("starcoder2").toString(),
                "--out",
                folder.resolve("merged").toString(),
                "--device",
                "cpu");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err()).startsWith("starforge: ").contains("adapter_model.safetensors");
        assertThat(folder.resolve("merged")).doesNotExist();
    }

    @Test
    void aTornAdapterIsNamed() throws IOException {
        Path torn = folder.resolve("torn");
        Files.createDirectories(torn);
        Path adapter = MODELS.resolve("starcoder2/adapter");
        Files.copy(adapter.resolve("adapter_config.json"), torn.resolve("adapter_config.json"));
        byte[] bytes = Files.readAllBytes(adapter.resolve("adapter_model.safetensors"));
        Files.write(torn.resolve("adapter_model.safetensors"), Arrays.copyOf(bytes, bytes.length / 2));
        CommandOutcome outcome = run(
                "merge",
                torn.toString(),
                "--base",
                MODELS.resolve("starcoder2").toString(),
                "--out",
                folder.resolve("merged").toString(),
                "--device",
                "cpu");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err()).contains("torn/adapter_model.safetensors").doesNotContain("\tat ");
        assertThat(folder.resolve("merged")).doesNotExist();
    }

    /** An adapter whose B is zero has no effect, so there is nothing that a merge could prove. */
    @Test
    void anAdapterThatChangesNothingIsNoProof() throws IOException {
        Path idle = folder.resolve("idle");
        Files.createDirectories(idle);
        Path adapter = MODELS.resolve("starcoder2/adapter");
        Files.copy(adapter.resolve("adapter_config.json"), idle.resolve("adapter_config.json"));
        List<SafetensorsFile.SafetensorsData> entries = new ArrayList<>();
        try (SafetensorsFile file = SafetensorsFile.open(adapter.resolve("adapter_model.safetensors"))) {
            for (String name : file.tensors().keySet()) {
                float[] values = file.readFloats(name);
                if (name.contains("lora_B")) {
                    Arrays.fill(values, 0);
                }
                entries.add(SafetensorsFile.SafetensorsData.of(
                        name, file.tensor(name).shape(), values));
            }
        }
        SafetensorsFile.write(idle.resolve("adapter_model.safetensors"), entries);
        CommandOutcome outcome = run(
                "merge",
                idle.toString(),
                "--base",
                MODELS.resolve("starcoder2").toString(),
                "--out",
                folder.resolve("merged").toString(),
                "--device",
                "cpu");
        assertThat(outcome.code()).isEqualTo(1);
        assertThat(outcome.err()).contains("the adapter changes nothing");
        assertThat(folder.resolve("merged")).doesNotExist();
    }
}
