package dev.starforge.train.trainer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.model.KvCache;
import dev.starforge.model.Model;
import dev.starforge.model.ModelException;
import dev.starforge.model.Parameter;
import dev.starforge.model.kv.Batches;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.lora.LoraConfig;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.Tensor;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.op.Checkpointing;
import dev.starforge.train.TrainException;
import dev.starforge.train.corpus.TrainingExample;
import dev.starforge.train.run.Tiny;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What must hold of a step, whatever is trained. */
final class TrainerTest {
    private static final int[] LENGTHS = {5, 21, 3, 40, 12, 9};

    /** The parameters after some steps, and the losses on the way. */
    private record Outcome(List<Double> losses, Map<String, float[]> parameters) {
        static Outcome of(Tiny tiny, TrainerSettings settings, List<List<TrainingExample>> batches, int steps) {
            try (Trainer trainer = tiny.trainer(settings)) {
                List<Double> losses = new ArrayList<>();
                for (int i = 0; i < steps; i++) {
                    losses.add(trainer.step(batches, 1e-2, i).loss());
                }
                Map<String, float[]> after = new LinkedHashMap<>();
                trainer.parameters()
                        .forEach((name, tensor) -> after.put(name, tiny.device().floats(tensor)));
                return new Outcome(losses, after);
            }
        }

        void requireSameBits(Outcome other) {
            assertThat(other.losses).isEqualTo(losses);
            parameters.forEach((name, values) ->
                    assertThat(other.parameters.get(name)).as(name).isEqualTo(values));
        }

        void requireClose(Outcome other, double tolerance) {
            for (int i = 0; i < losses.size(); i++) {
                assertThat(other.losses.get(i) / losses.get(i) - 1).isBetween(-tolerance, tolerance);
            }
            parameters.forEach((name, values) -> {
                double distance = 0;
                double size = 0;
                for (int i = 0; i < values.length; i++) {
                    distance += Math.pow(values[i] - other.parameters.get(name)[i], 2);
                    size += values[i] * values[i];
                }
                assertThat(Math.sqrt(distance / size)).as(name).isLessThan(tolerance);
            });
        }
    }

    @Test
    void theInitialLogitsEqualThoseOfTheBase() {
        try (Tiny tiny = Tiny.open(2, false);
                Scope weights = new Scope(tiny.device());
                Scope step = new Scope(tiny.device())) {
            Model base = tiny.files().load(weights, Precision.FLOAT32);
            var ops = tiny.device().ops(step, Precision.FLOAT32, Fallback.FORBIDDEN);
            List<int[]> texts =
                    Tiny.examples(LENGTHS).stream().map(TrainingExample::ids).toList();
            float[] plain = tiny.device().floats(base.forward(ops, Batches.packed(base, step, texts), KvCache.NONE));
            float[] adapted =
                    tiny.device().floats(tiny.model().forward(ops, Batches.packed(base, step, texts), KvCache.NONE));
            assertThat(adapted).isEqualTo(plain);
        }
    }

    @Test
    void accumulatedBatchesEqualOneLargeBatchAlthoughTheirTokenCountsDiffer() {
        List<TrainingExample> all = Tiny.examples(LENGTHS);
        List<List<TrainingExample>> cut = List.of(all.subList(0, 1), all.subList(1, 4), all.subList(4, 6));
        Outcome whole;
        Outcome parts;
        try (Tiny tiny = Tiny.open(2, false)) {
            whole = Outcome.of(tiny, Tiny.settings(Checkpointing.OFF, 0.1, 5), List.of(all), 4);
        }
        try (Tiny tiny = Tiny.open(2, false)) {
            parts = Outcome.of(tiny, Tiny.settings(Checkpointing.OFF, 0.1, 5), cut, 4);
        }
        whole.requireClose(parts, 2e-4);
    }

    @Test
    void theMeanOverBatchesIsNotTheMeanOfTheirMeans() {
        List<TrainingExample> all = Tiny.examples(3, 40);
        try (Tiny tiny = Tiny.open(1, false);
                Trainer trainer = tiny.trainer(Tiny.settings(Checkpointing.OFF, 0, 0))) {
            double first = trainer.loss(all.subList(0, 1));
            double second = trainer.loss(all.subList(1, 2));
            int one = all.get(0).targets();
            int two = all.get(1).targets();
            double expected = (first * one + second * two) / (one + two);
            double reported = trainer.step(List.of(all.subList(0, 1), all.subList(1, 2)), 0, 0)
                    .loss();
            assertThat(reported).isCloseTo(expected, within(1e-6 * expected));
            assertThat(Math.abs((first + second) / 2 - expected)).isGreaterThan(1e-4 * expected);
        }
    }

    private static org.assertj.core.data.Offset<Double> within(double tolerance) {
        return org.assertj.core.data.Offset.offset(tolerance);
    }

    @Test
    void packedSequencesDoNotAttendToEachOther() {
        List<TrainingExample> all = Tiny.examples(LENGTHS);
        try (Tiny tiny = Tiny.open(2, false);
                Trainer trainer = tiny.trainer(Tiny.settings(Checkpointing.OFF, 0, 0))) {
            List<float[]> packed = trainer.tokenLosses(all);
            for (int i = 0; i < all.size(); i++) {
                assertThat(trainer.tokenLosses(all.subList(i, i + 1)).getFirst())
                        .isEqualTo(packed.get(i));
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"0, 0, false", "0.2, 0, false", "0, 5, false", "0.2, 5, true"})
    void gradientCheckpointingGivesTheSameBits(double dropout, double neftune, boolean dora) {
        List<List<TrainingExample>> batches = List.of(Tiny.examples(LENGTHS));
        List<Outcome> outcomes = new ArrayList<>();
        for (Checkpointing checkpointing : Checkpointing.values()) {
            try (Tiny tiny = Tiny.open(2, dora)) {
                outcomes.add(Outcome.of(tiny, Tiny.settings(checkpointing, dropout, neftune), batches, 3));
            }
        }
        outcomes.get(0).requireSameBits(outcomes.get(1));
        outcomes.get(0).requireSameBits(outcomes.get(2));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theNumberOfThreadsDoesNotChangeABit(boolean eightBit) {
        TrainerSettings settings =
                new TrainerSettings(eightBit, false, 0.9, 0.999, 1e-8, 0.01, 1, Checkpointing.FULL, 0.1, 5, 3);
        List<List<TrainingExample>> batches = List.of(Tiny.examples(LENGTHS), Tiny.examples(30, 30));
        Outcome one;
        Outcome two;
        try (Tiny tiny = Tiny.open(1, false)) {
            one = Outcome.of(tiny, settings, batches, 3);
        }
        try (Tiny tiny = Tiny.open(2, false)) {
            two = Outcome.of(tiny, settings, batches, 3);
        }
        one.requireSameBits(two);
    }

    @Test
    void eightBitOptimizerStateTrainsAboutAsWell() {
        List<List<TrainingExample>> batches = List.of(Tiny.examples(30, 30, 30));
        List<Double> losses = new ArrayList<>();
        for (boolean eightBit : new boolean[] {false, true}) {
            TrainerSettings settings =
                    new TrainerSettings(eightBit, false, 0.9, 0.999, 1e-8, 0, 1, Checkpointing.OFF, 0, 0, 3);
            try (Tiny tiny = Tiny.open(2, false)) {
                losses.add(Outcome.of(tiny, settings, batches, 30).losses().getLast());
            }
        }
        assertThat(losses.get(0)).isLessThan(5.0);
        assertThat(losses.get(1)).isCloseTo(losses.get(0), within(0.05 * losses.get(0)));
    }

    @Test
    void chunkedLogitsGiveTheSameGradients() {
        try (Device device = Tiny.cpu(2);
                ModelFiles files = ModelFiles.open(Tiny.STARCODER);
                Scope scope = new Scope(device)) {
            List<Parameter> parts = new ArrayList<>();
            Model model = files.load(scope, Precision.FLOAT32, parts);
            Map<String, Tensor> parameters = new LinkedHashMap<>();
            parts.forEach(part -> parameters.put(part.names().getFirst(), part.tensor()));
            TrainerSettings settings = Tiny.settings(Checkpointing.OFF, 0, 0);
            List<TrainingExample> examples = Tiny.examples(100, 80, 33);
            try (Trainer whole =
                            new Trainer(model, parameters, device, Precision.FLOAT32, Fallback.FORBIDDEN, settings);
                    Trainer pieces = new Trainer(
                            model, parameters, device, Precision.FLOAT32, Fallback.FORBIDDEN, settings, 1)) {
                Map<String, float[]> expected = whole.gradients(examples);
                Map<String, float[]> actual = pieces.gradients(examples);
                assertThat(expected).containsKey("model.embed_tokens.weight").hasSizeGreaterThan(20);
                expected.forEach((name, values) -> {
                    double distance = 0;
                    double size = 0;
                    for (int i = 0; i < values.length; i++) {
                        distance += Math.pow(values[i] - actual.get(name)[i], 2);
                        size += values[i] * values[i];
                    }
                    assertThat(Math.sqrt(distance)).as(name).isLessThanOrEqualTo(1e-5 * Math.sqrt(size));
                });
                assertThat(pieces.loss(examples)).isCloseTo(whole.loss(examples), within(1e-5));
            }
        }
    }

    @Test
    void allWeightsAndTiedEmbeddingsLearn() {
        try (Device device = Tiny.cpu(2);
                ModelFiles files = ModelFiles.open(Tiny.STARCODER);
                Scope scope = new Scope(device)) {
            List<Parameter> parts = new ArrayList<>();
            Model model = files.load(scope, Precision.FLOAT32, parts);
            Map<String, Tensor> parameters = new LinkedHashMap<>();
            parts.forEach(part -> parameters.put(part.names().getFirst(), part.tensor()));
            List<TrainingExample> examples = Tiny.examples(20, 20);
            String name = "model.embed_tokens.weight";
            TrainerSettings settings = Tiny.settings(Checkpointing.FULL, 0, 0);
            try (Trainer trainer =
                    new Trainer(model, parameters, device, Precision.FLOAT32, Fallback.FORBIDDEN, settings)) {
                float[] gradient = trainer.gradients(examples).get(name);
                float[] values = device.floats(parameters.get(name));
                double along = 0;
                for (float g : gradient) {
                    along += (double) g * g;
                }
                double step = 1e-3 / Math.sqrt(along);
                double[] losses = new double[2];
                for (int side = 0; side < 2; side++) {
                    float[] moved = values.clone();
                    for (int i = 0; i < moved.length; i++) {
                        moved[i] += (float) ((side == 0 ? -step : step) * gradient[i]);
                    }
                    device.write(parameters.get(name), moved);
                    losses[side] = trainer.loss(examples);
                }
                device.write(parameters.get(name), values);
                assertThat((losses[1] - losses[0]) / (2 * step)).isCloseTo(along, within(0.02 * along));
                double before = trainer.loss(examples);
                for (int i = 0; i < 10; i++) {
                    trainer.step(examples, 1e-3);
                }
                assertThat(trainer.loss(examples)).isLessThan(0.8 * before);
            }
        }
    }

    /** Lengths are trained as they are, directions with their own lengths as constants. */
    @Test
    void theGradientOfDoraMagnitudesMatchesFiniteDifferences() {
        List<TrainingExample> examples = Tiny.examples(20, 11);
        try (Tiny tiny = Tiny.open(2, true);
                Trainer trainer = tiny.trainer(Tiny.settings(Checkpointing.OFF, 0, 0))) {
            trainer.step(examples, 1e-2); // B is no longer zero
            String name = tiny.adapter().parameters().keySet().stream()
                    .filter(parameter -> parameter.endsWith("lora_magnitude_vector"))
                    .findFirst()
                    .orElseThrow();
            Tensor lengths = tiny.adapter().parameters().get(name);
            float[] gradient = trainer.gradients(examples).get(name);
            float[] values = tiny.device().floats(lengths);
            double along = 0;
            for (float g : gradient) {
                along += (double) g * g;
            }
            double step = 2e-2 / Math.sqrt(along);
            double[] losses = new double[2];
            for (int side = 0; side < 2; side++) {
                float[] moved = values.clone();
                for (int i = 0; i < moved.length; i++) {
                    moved[i] += (float) ((side == 0 ? -step : step) * gradient[i]);
                }
                tiny.device().write(lengths, moved);
                losses[side] = trainer.loss(examples);
            }
            assertThat((losses[1] - losses[0]) / (2 * step)).isCloseTo(along, within(0.02 * along));
        }
    }

    /** A power of two changes no bit, unless gradients overflow: then steps are skipped until they no longer do. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aScaledLossTrainsTheSame(boolean eightBit) {
        List<List<TrainingExample>> batches = List.of(Tiny.examples(LENGTHS), Tiny.examples(9, 30));
        Outcome plain;
        try (Tiny tiny = Tiny.open(2, false)) {
            plain = Outcome.of(
                    tiny,
                    new TrainerSettings(eightBit, false, 0.9, 0.999, 1e-8, 0.01, 1, Checkpointing.OFF, 0.1, 5, 3),
                    batches,
                    4);
        }
        TrainerSettings scaled =
                new TrainerSettings(eightBit, true, 0.9, 0.999, 1e-8, 0.01, 1, Checkpointing.OFF, 0.1, 5, 3);
        try (Tiny tiny = Tiny.open(2, false)) {
            plain.requireSameBits(Outcome.of(tiny, scaled, batches, 4));
        }
        List<String> targets = LoraConfig.automatic("starcoder2");
        try (Tiny tiny = Tiny.open(Tiny.STARCODER, 2, new LoraConfig(4, 8000, 0, targets, true, false, false)); // steep
                Trainer trainer = tiny.trainer(scaled)) {
            trainer.lossScale().restore(0x1p120, 7);
            int skipped = 0;
            double scale = trainer.lossScale().value();
            Trainer.Report report = trainer.step(batches, 1e-2, 0);
            while (!report.moved()) {
                skipped++;
                assertThat(report.scaledDown()).isTrue();
                assertThat(trainer.updates()).isZero();
                assertThat(trainer.lossScale().value()).isEqualTo(scale / 2);
                assertThat(trainer.lossScale().goodSteps()).isZero();
                scale /= 2;
                report = trainer.step(batches, 1e-2, 0);
            }
            assertThat(skipped).isBetween(2, 10);
            assertThat(report.loss()).isEqualTo(plain.losses.getFirst());
        }
    }

    @Test
    void theScaleGrowsAfterALongTimeAndNeverBelowOne() {
        LossScale scale = LossScale.dynamic();
        double first = scale.value();
        for (int i = 0; i < 1999; i++) {
            assertThat(scale.update(true, true)).isFalse();
        }
        assertThat(scale.value()).isEqualTo(first);
        scale.update(true, true);
        assertThat(scale.value()).isEqualTo(2 * first);
        for (int i = 0; i < 17; i++) {
            assertThat(scale.update(true, false)).isTrue();
        }
        assertThat(scale.value()).isOne();
        assertThat(scale.update(true, false))
                .as("there is nothing left to scale down")
                .isFalse();
        assertThat(LossScale.dynamic().update(false, false))
                .as("a loss that is not finite is no matter of scale")
                .isFalse();
        assertThatThrownBy(() -> scale.restore(3, 0)).isInstanceOf(TrainException.class);
    }

    /** How far the first step moves everything, and the norm it reports; eps drowns the second moment, so the gradient is the way. */
    private static double[] firstStep(double maxNorm) {
        double eps = 1e4;
        TrainerSettings settings = TrainerSettings.plain(0.9, 0.999, eps, 0, maxNorm, Checkpointing.OFF);
        try (Tiny tiny = Tiny.open(2, false);
                Trainer trainer = tiny.trainer(settings)) {
            Map<String, float[]> before = new LinkedHashMap<>();
            trainer.parameters()
                    .forEach((name, tensor) -> before.put(name, tiny.device().floats(tensor)));
            double norm = trainer.step(List.of(Tiny.examples(LENGTHS)), eps, 0).gradientNorm();
            double squares = 0;
            for (Map.Entry<String, Tensor> parameter : trainer.parameters().entrySet()) {
                float[] after = tiny.device().floats(parameter.getValue());
                float[] from = before.get(parameter.getKey());
                for (int i = 0; i < after.length; i++) {
                    squares += Math.pow(after[i] - from[i], 2);
                }
            }
            return new double[] {Math.sqrt(squares), norm};
        }
    }

    @Test
    void onlyGradientsAboveTheNormLimitAreClipped() {
        double[] free = firstStep(1e9);
        double norm = free[1];
        assertThat(free[0] / norm).isCloseTo(1, within(1e-3));
        assertThat(firstStep(2 * norm)[0]).isEqualTo(free[0]);
        double[] clipped = firstStep(norm / 4);
        assertThat(clipped[0] / norm).isCloseTo(0.25, within(1e-3));
        assertThat(clipped[1]).isEqualTo(norm);
    }

    @Test
    void aNonFiniteStepUpdatesNothing() {
        List<TrainingExample> examples = Tiny.examples(20);
        try (Tiny tiny = Tiny.open(2, false);
                Trainer trainer = tiny.trainer(Tiny.settings(Checkpointing.OFF, 0, 0))) {
            Tensor a = tiny.adapter().parameters().values().iterator().next();
            float[] values = tiny.device().floats(a);
            values[0] = Float.NaN;
            tiny.device().write(a, values);
            Trainer.Report report = trainer.step(examples, 1e-2);
            assertThat(report.moved()).isFalse();
            assertThat(trainer.updates()).isZero();
            assertThat(tiny.device().floats(a)).isEqualTo(values);
        }
    }

    @Test
    void aTargetThatIsNoProjectionIsNamed() {
        LoraConfig settings = new LoraConfig(4, 8, 0, List.of("q_proj", "gate_proj"), true, false, false);
        assertThatThrownBy(() -> Tiny.open(Tiny.STARCODER, 1, settings).close())
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("gate_proj")
                .hasMessageContaining("c_fc");
    }
}
