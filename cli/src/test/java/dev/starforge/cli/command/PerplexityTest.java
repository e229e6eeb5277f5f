package dev.starforge.cli.command;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.cli.model.EmbeddedModel;
import dev.starforge.model.generate.Generator;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.Scope;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.text.Tokenizers;
import java.nio.file.Path;
import java.util.Set;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What rounding activations to eight bits costs a trained model, by every implementation of its products: random weights do not
 * tell, since nothing depends on them.
 */
final class PerplexityTest {
    private static final String TEXT = """
        import java.util.ArrayList;
        import java.util.List;

        /** Keeps the largest of many numbers. */
        public final class Largest {
            private final int count;
            private final List<Integer> values = new ArrayList<>();

            public Largest(int count) {
                if (count < 1) {
                    throw new IllegalArgumentException("count: expected at least 1, got " + count);
                }
                this.count = count;
            }

            public void add(int value) {
                int at = values.size();
                while (at > 0 && values.get(at - 1) < value) {
                    at--;
                }
                values.add(at, value);
                if (values.size() > count) {
                    values.remove(count);
                }
            }

            public List<Integer> values() {
                return List.copyOf(values);
            }
        }
        """;

    @TempDir
    Path home;

    @Test
    void roundedActivationsLeaveATrainedModelAsItIs() {
        Path model = EmbeddedModel.file(home);
        double exact = nats(model, Set.of(), false);
        assertThat(exact).as("a model that has learnt something").isBetween(0.5, 5.0);
        assertThat(nats(model, DeviceOptions.NO_MACHINE_CODE, false)).isCloseTo(exact, within(1e-4));
        for (Set<String> hidden : Set.of(Set.<String>of(), Set.of("avx512_vnni"), DeviceOptions.NO_MACHINE_CODE)) {
            assertThat(nats(model, hidden, true)).as("without %s", hidden).isCloseTo(exact, within(0.01));
        }
    }

    private static Offset<Double> within(double nats) {
        return Offset.offset(nats);
    }

    /** The mean negative log-likelihood of a token: the logarithm of the perplexity. */
    private static double nats(Path path, Set<String> hidden, boolean int8) {
        Precision precision = Precision.FLOAT32.withWeightsAsStored().withInt8Activations(int8);
        int[] ids = Tokenizers.require(path, "perplexity").encode(TEXT, true);
        DeviceOptions options = new DeviceOptions(0, 2, Path.of("unused"), hidden);
        try (Device device = Selection.choose("cpu").backend().open(options);
                Scope weights = new Scope(device);
                ModelFiles files = ModelFiles.open(path);
                Generator generator =
                        new Generator(files.load(weights, precision), device, precision, Fallback.QUIET, ids.length)) {
            double sum = 0;
            for (int i = 0; i + 1 < ids.length; i++) {
                generator.feedOne(ids[i]);
                sum += surprise(generator.logits(), ids[i + 1]);
            }
            return sum / (ids.length - 1);
        }
    }

    private static double surprise(float[] logits, int id) {
        double largest = Double.NEGATIVE_INFINITY;
        for (float logit : logits) {
            largest = Math.max(largest, logit);
        }
        double sum = 0;
        for (float logit : logits) {
            sum += Math.exp(logit - largest);
        }
        return largest + Math.log(sum) - logits[id];
    }
}
