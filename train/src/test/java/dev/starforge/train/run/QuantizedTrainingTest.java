package dev.starforge.train.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.Quantization;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.model.lora.LoraConfig;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.trainer.Trainer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Adapters on quantized bases, of every architecture: the same training as on the decoded numbers in float32. */
final class QuantizedTrainingTest {
    private static final Precision STORED = Precision.FLOAT32.withWeightsAsStored();
    private static final List<String> MIXTURES =
            List.of("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3");

    static Stream<Arguments> architectures() throws IOException {
        List<Arguments> all = new ArrayList<>();
        try (Stream<Path> models = Files.list(Tiny.GOLDEN)) {
            for (Path model : models.sorted().toList()) {
                for (String base : List.of("nf4-double", "int8-128")) {
                    all.add(Arguments.of(model.getFileName().toString(), base, false, false));
                    all.add(Arguments.of(model.getFileName().toString(), base, true, true));
                }
            }
        }
        all.add(Arguments.of("starcoder2", "nf4", false, false));
        all.add(Arguments.of("phi3", "int8-32", false, true));
        return all.stream();
    }

    /** One device with one model on it. */
    private record Trained(
            Device device,
            ModelFiles files,
            Quantization base,
            Precision precision,
            Scope scope,
            LoraAdapter adapter,
            Model model)
            implements AutoCloseable {
        static Trained open(String name, String quantization, LoraConfig lora, Device device, Precision precision) {
            ModelFiles files = ModelFiles.open(Tiny.GOLDEN.resolve(name));
            Quantization base = Quantization.parse(quantization);
            Scope scope = new Scope(device);
            LoraAdapter adapter = LoraAdapter.create(lora, 7, scope);
            Model model = files.quantized(base).load(scope, precision, adapter);
            return new Trained(device, files, base, precision, scope, adapter, model);
        }

        Trainer trainer(Checkpointing checkpointing) {
            return new Trainer(
                    model,
                    adapter.parameters(),
                    device,
                    precision,
                    Fallback.FORBIDDEN,
                    Tiny.settings(checkpointing, 0, 0));
        }

        /** Moves every parameter a little, so that no gradient is zero because B is. */
        Trained stir() {
            adapter.parameters().forEach((name, tensor) -> {
                float[] values = device.floats(tensor);
                for (int i = 0; i < values.length; i++) {
                    values[i] += 0.02f * (float) Math.sin(i * 0.7 + name.length());
                }
                device.write(tensor, values);
            });
            return this;
        }

        /** The losses and gradient norms of some steps, and the parameters after them. */
        List<Object> trace(Checkpointing checkpointing) {
            List<Object> trace = new ArrayList<>();
            try (Trainer trainer = trainer(checkpointing)) {
                for (int i = 0; i < 3; i++) {
                    Trainer.Report report = trainer.step(Tiny.examples(30, 7, 41), 1e-2);
                    trace.add(report.loss());
                    trace.add(report.gradientNorm());
                }
                trainer.parameters().values().forEach(tensor -> {
                    for (float value : device.floats(tensor)) {
                        trace.add(value);
                    }
                });
            }
            return trace;
        }

        @Override
        public void close() {
            adapter.close();
            scope.close();
            files.close();
            device.close();
        }
    }

    private static Device reference() {
        return Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("unused")));
    }

    private static LoraConfig lora(String model, boolean stabilized, boolean dora) {
        String architecture = model.replaceAll("-.*", "").replaceAll("llama\\d", "llama");
        List<String> targets = new ArrayList<>(LoraConfig.automatic(architecture));
        if (MIXTURES.contains(model) && !dora) {
            targets.add(LoraConfig.EXPERTS);
        }
        return new LoraConfig(4, 8, 0, targets, false, stabilized, dora);
    }

    @ParameterizedTest
    @MethodSource("architectures")
    void gradientsAreThoseOfTheDecodedBase(String model, String base, boolean stabilized, boolean dora) {
        List<TrainingExample> examples = Tiny.examples(13, 6);
        LoraConfig lora = lora(model, stabilized, dora);
        double loss;
        Map<String, float[]> gradients;
        try (Trained decoded = Trained.open(model, base, lora, reference(), Precision.FLOAT32)
                        .stir();
                Trainer trainer = decoded.trainer(Checkpointing.OFF)) {
            loss = trainer.loss(examples);
            gradients = new LinkedHashMap<>(trainer.gradients(examples));
        }
        try (Trained quantized =
                        Trained.open(model, base, lora, Tiny.cpu(2), STORED).stir();
                Trainer trainer = quantized.trainer(Checkpointing.OFF)) {
            assertThat(trainer.loss(examples) / loss - 1).isBetween(-1e-4, 1e-4);
            Map<String, float[]> ours = trainer.gradients(examples);
            assertThat(ours.keySet()).isEqualTo(gradients.keySet());
            double whole = gradients.values().stream()
                    .mapToDouble(QuantizedTrainingTest::squares)
                    .sum();
            gradients.forEach((name, wanted) -> {
                float[] difference = wanted.clone();
                for (int i = 0; i < difference.length; i++) {
                    difference[i] -= ours.get(name)[i];
                }
                double allowed = 1e-4 * Math.sqrt(squares(wanted)) + 1e-7 * Math.sqrt(whole);
                assertThat(Math.sqrt(squares(difference))).as(name).isLessThanOrEqualTo(allowed);
            });
            assertThat(whole).isPositive();
        }
    }

    private static double squares(float... values) {
        double sum = 0;
        for (float value : values) {
            sum += (double) value * value;
        }
        return sum;
    }

    @ParameterizedTest
    @MethodSource("architectures")
    void theInitialLogitsEqualThoseOfTheQuantizedBase(String model, String base, boolean stabilized, boolean dora) {
        try (Trained trained = Trained.open(model, base, lora(model, stabilized, dora), Tiny.cpu(2), STORED);
                Scope weights = new Scope(trained.device());
                Scope step = new Scope(trained.device())) {
            Model plain = trained.files().quantized(trained.base()).load(weights, STORED);
            var ops = trained.device().ops(step, STORED, Fallback.FORBIDDEN);
            List<int[]> texts =
                    Tiny.examples(20, 3).stream().map(TrainingExample::ids).toList();
            float[] expected =
                    trained.device().floats(plain.forward(ops, Batches.packed(plain, step, texts), KvCache.NONE));
            float[] adapted = trained.device()
                    .floats(trained.model().forward(ops, Batches.packed(plain, step, texts), KvCache.NONE));
            if (dora) { // lengths over lengths are one but for a rounding
                double most = 0;
                for (int i = 0; i < expected.length; i++) {
                    most = Math.max(most, Math.abs(expected[i] - adapted[i]));
                }
                assertThat(most).isLessThan(1e-4);
            } else {
                assertThat(adapted).isEqualTo(expected);
            }
            Model original = trained.files().load(weights, Precision.FLOAT32);
            assertThat(trained.device()
                            .floats(original.forward(ops, Batches.packed(original, step, texts), KvCache.NONE)))
                    .isNotEqualTo(expected);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"nf4-double", "int8-64"})
    void neitherThreadsNorCheckpointingChangeABit(String base) {
        for (String model : List.of("starcoder2", "phi3", "qwen3_moe")) {
            List<Object> one;
            try (Trained trained = Trained.open(model, base, lora(model, false, false), Tiny.cpu(1), STORED)) {
                one = trained.trace(Checkpointing.OFF);
            }
            for (Checkpointing checkpointing : Checkpointing.values()) {
                try (Trained trained = Trained.open(model, base, lora(model, false, false), Tiny.cpu(2), STORED)) {
                    assertThat(trained.trace(checkpointing)).as(model).isEqualTo(one);
                }
            }
        }
    }

    @Test
    void aTargetThatIsNoProjectionIsNamed() {
        LoraConfig settings = new LoraConfig(4, 8, 0, List.of("q_proj", "gate_proj"), true, false, false);
        assertThatThrownBy(() -> Trained.open("starcoder2", "nf4-double", settings, Tiny.cpu(1), STORED)
                        .close())
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("gate_proj")
                .hasMessageContaining("c_fc");
    }

    /** What is not quantized is kept in 16 bits and computed with in 32: nothing but the weights is rounded. */
    @ParameterizedTest
    @CsvSource({"none, BF16", "none, F16", "nf4-double, BF16"})
    void sixteenBitsAreForKeepingOnly(String base, DType dtype) {
        List<TrainingExample> examples = Tiny.examples(13, 6);
        LoraConfig lora = lora("starcoder2", false, false);
        Precision precision = Precision.FLOAT32.withStorage(dtype).withWeightsAsStored();
        List<Double> losses = new ArrayList<>();
        List<Map<String, float[]>> gradients = new ArrayList<>();
        for (boolean fast : new boolean[] {false, true}) {
            try (Trained trained = Trained.open("starcoder2", base, lora, fast ? Tiny.cpu(2) : reference(), precision);
                    Trainer trainer = trained.trainer(Checkpointing.OFF)) {
                losses.add(trainer.loss(examples));
                gradients.add(trainer.gradients(examples));
            }
        }
        assertThat(losses.get(1) / losses.get(0) - 1).isBetween(-1e-5, 1e-5);
        gradients.get(0).forEach((name, wanted) -> {
            float[] difference = wanted.clone();
            for (int i = 0; i < difference.length; i++) {
                difference[i] -= gradients.get(1).get(name)[i];
            }
            assertThat(squares(difference)).as(name).isLessThanOrEqualTo(1e-8 * squares(wanted));
        });
        try (Trained whole = Trained.open("starcoder2", base, lora, Tiny.cpu(2), STORED);
                Trainer trainer = whole.trainer(Checkpointing.OFF)) {
            assertThat(trainer.loss(examples)).isNotEqualTo(losses.get(1));
        }
    }

    /** A base of a GGUF file, in the types it has there. */
    @ParameterizedTest
    @ValueSource(strings = {"Q4_0", "Q5_1", "Q8_0", "Q2_K", "Q4_K", "Q6_K"})
    void aQuantizedFileIsTrainedOnAsItIs(String type) {
        Path file = Path.of("..", "golden", "gguf", "micro-" + type + ".gguf");
        List<TrainingExample> examples = Tiny.examples(13, 6).stream()
                .map(example -> new TrainingExample(
                        IntStream.of(example.ids()).map(id -> id % 400).toArray(),
                        IntStream.of(example.ids()).map(id -> id % 400).toArray()))
                .toList();
        List<Double> losses = new ArrayList<>();
        List<Map<String, float[]>> gradients = new ArrayList<>();
        for (boolean decoded : new boolean[] {true, false}) {
            try (Device device = decoded ? reference() : Tiny.cpu(2);
                    ModelFiles files = ModelFiles.open(file).quantized(Quantization.NONE);
                    Scope scope = new Scope(device);
                    LoraAdapter adapter = LoraAdapter.create(lora("llama2", false, false), 7, scope)) {
                Precision precision = decoded ? Precision.FLOAT32 : STORED;
                Model model = files.load(scope, precision, adapter);
                long stored = files.tensors().stream()
                        .mapToLong(ModelFiles.TensorInfo::bytes)
                        .sum();
                long parameters = adapter.parameters().values().stream()
                        .mapToLong(Tensor::bytes)
                        .sum();
                assertThat(scope.usedBytes() - parameters < 1.02 * stored).isEqualTo(!decoded);
                try (Trainer trainer = new Trainer(
                        model,
                        adapter.parameters(),
                        device,
                        precision,
                        Fallback.FORBIDDEN,
                        Tiny.settings(Checkpointing.OFF, 0, 0))) {
                    losses.add(trainer.loss(examples));
                    gradients.add(trainer.gradients(examples));
                }
            }
        }
        assertThat(losses.get(1) / losses.get(0) - 1).isBetween(-1e-4, 1e-4);
        gradients.get(0).forEach((name, wanted) -> {
            float[] difference = wanted.clone();
            for (int i = 0; i < difference.length; i++) {
                difference[i] -= gradients.get(1).get(name)[i];
            }
            assertThat(squares(difference)).as(name).isLessThanOrEqualTo(1e-8 * squares(wanted));
        });
    }
}
