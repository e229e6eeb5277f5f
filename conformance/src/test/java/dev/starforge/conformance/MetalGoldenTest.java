package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.metal.StandIn;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.verify.GoldenFolder;
import dev.starforge.train.verify.GoldenTolerances;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.node.ObjectNode;

/**
 * Whole golden models on {@code --device metal}, with the backend as it is and a library that stands in for Metal: logits, greedy text,
 * losses, gradients of an adapter and training steps, as {@code starforge verify} compares them.
 */
final class MetalGoldenTest {
    private static final int REPLAYS = 5;

    @ParameterizedTest
    @ValueSource(strings = {"llama3"})
    void modelMatchesItsGolden(String name) {
        try (StandIn standIn = StandIn.open()) {
            standIn.violations();
            Precision precision = Precision.FLOAT32;
            DeviceOptions options = new DeviceOptions(0, 0, Path.of("target", "kernels"));
            try (Device device = Selection.choose("metal").backend().open(options)) {
                GoldenFolder golden =
                        new GoldenFolder(Path.of("..", "golden"), device, precision, Fallback.FORBIDDEN);
                ObjectNode report =
                        golden.model(name, GoldenTolerances.of(device, precision), REPLAYS, Optional.empty());
                assertThat(report.path("pass").asBoolean())
                        .as(report.toPrettyString())
                        .isTrue();
            }
            assertThat(standIn.violations()).isEmpty();
            assertThat(standIn.live()).isEmpty();
        }
    }
}
