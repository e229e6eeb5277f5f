package dev.starforge.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.model.Batches;
import dev.starforge.model.Config;
import dev.starforge.model.GgufFile;
import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.ModelFiles;
import dev.starforge.model.SafetensorsFile;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Device;
import dev.starforge.tensor.DeviceOptions;
import dev.starforge.tensor.Fallback;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Selection;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Merged models of every architecture against what PEFT computed with base and adapter. */
final class MergeVerbTest {
    private static final Path MODELS = Path.of("..", "golden", "models");

    @TempDir
    Path folder;

    private record Outcome(int code, String out, String err) {
        JsonNode json() {
            return new JsonMapper().readTree(out);
        }
    }

    private static Outcome run(String... args) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int code = Main.commandLine()
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err))
                .execute(args);
        return new Outcome(code, out.toString(), err.toString());
    }

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
            boolean rounded = Config.read(golden.resolve("expected.json"))
                    .text("dtype", "torch.float32")
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
        Outcome outcome = run(
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
            Outcome refused = run(
                    "merge",
                    golden.resolve("adapter").toString(),
                    "--base",
                    base.toString(),
                    "--gguf-adapter",
                    adapter.toString(),
                    "--device",
                    "cpu");
            assertThat(refused.code()).isEqualTo(1);
            assertThat(refused.err()).contains("it takes no adapter for it");
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
        Outcome outcome = run(command.toArray(String[]::new));
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        assertThat(outcome.json().path("proved").booleanValue()).isTrue();
        if (split) {
            return;
        }
        try (GgufFile file = GgufFile.open(adapter);
                GgufFile model = GgufFile.open(base)) {
            assertThat(file.text("general.type")).isEqualTo("adapter");
            assertThat(file.text("general.architecture")).isEqualTo(model.text("general.architecture"));
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
        Outcome outcome = export(golden, golden, out, "--type", "F32");
        assertThat(outcome.err()).isEmpty();
        assertThat(outcome.code()).isZero();
        assertThat(outcome.json().path("proved").booleanValue()).isTrue();
        assertThat(outcome.json().path("format").stringValue()).isEqualTo("gguf");
        assertThat(outcome.json().has("note"))
                .isEqualTo(!Config.read(golden.resolve("config.json")).isUnset("sliding_window"));
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
        Outcome outcome = export(golden, base, out, "--format", "hf");
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
        Outcome outcome = run("export", golden.toString(), "--out", out.toString(), "--device", "cpu", "--json");
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
        Outcome refused =
                run("export", gguf.toString(), "--out", folder.resolve("a.gguf").toString(), "--device", "cpu");
        assertThat(refused.code()).isEqualTo(1);
        assertThat(refused.err()).contains("is no folder with safetensors");
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

    private static Outcome export(Path golden, Path base, Path out, String... more) {
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
        Outcome refused = export(golden, model, folder.resolve("merged.gguf"));
        assertThat(refused.code()).isEqualTo(1);
        assertThat(refused.err())
                .contains("config.json: key norm_topk_prob: expected false")
                .doesNotContain("\tat ");
        assertThat(folder.resolve("merged.gguf")).doesNotExist();
    }

    @Test
    void formsAndTypesThatDoNotGoTogetherAreRefused() {
        Path golden = MODELS.resolve("llama2");
        Path gguf = golden.resolve("model.gguf");
        Path out = folder.resolve("merged.gguf");
        assertThat(export(golden, golden, folder.resolve("merged"), "--format", "gguf")
                        .err())
                .contains("expected a name in .gguf");
        assertThat(export(golden, golden, out, "--format", "onnx").err()).contains("expected hf or gguf, got onnx");
        assertThat(export(golden, gguf, out, "--type", "F16").err()).contains("a GGUF base keeps its types");
    }

    @Test
    void anAdapterOfAnotherModelIsNamed() {
        Outcome outcome = run(
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
        Outcome outcome = run(
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
        List<SafetensorsFile.Entry> entries = new ArrayList<>();
        try (SafetensorsFile file = SafetensorsFile.open(adapter.resolve("adapter_model.safetensors"))) {
            for (String name : file.tensors().keySet()) {
                float[] values = file.readFloats(name);
                if (name.contains("lora_B")) {
                    Arrays.fill(values, 0);
                }
                entries.add(SafetensorsFile.Entry.of(name, file.tensor(name).shape(), values));
            }
        }
        SafetensorsFile.write(idle.resolve("adapter_model.safetensors"), entries);
        Outcome outcome = run(
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
