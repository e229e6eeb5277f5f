package dev.starforge.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.metal.StandIn;
import dev.starforge.tensor.DType;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Fallback;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.verify.GoldenFolder;
import dev.starforge.train.verify.GoldenTolerances;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import tools.jackson.databind.node.ObjectNode;

/**
 * Golden models on {@code --device metal} with a library that stands in for Metal: logits, greedy text, losses, gradients of an adapter
 * and training steps, as {@code starforge verify} compares them. {@code -Dfull} runs them, {@code -Donly=REGEX} those whose name and
 * precision match, such as {@code llama3 F32}.
 */
@EnabledIfSystemProperty(named = "full", matches = ".*")
final class MetalGoldenTest {
    private static final Path GOLDEN = Path.of("..", "golden");
    private static final Pattern ONLY = Pattern.compile(System.getProperty("only", ""));
    private static final int REPLAYS = 3;

    static List<Arguments> models() throws IOException {
        List<Arguments> models = new ArrayList<>();
        for (String name : GoldenFolder.models(GOLDEN)) {
            for (DType type : List.of(DType.F32, DType.BF16, DType.F16)) {
                if (ONLY.matcher(name + " " + type).find()) {
                    models.add(Arguments.of(name, type));
                }
            }
        }
        return models;
    }

    @ParameterizedTest(allowZeroInvocations = true)
    @MethodSource("models")
    void modelMatchesItsGolden(String name, DType type) {
        try (StandIn standIn = StandIn.open()) {
            standIn.violations();
            Precision precision = Precision.of(type);
            DeviceOptions options = new DeviceOptions(0, 0, Path.of("target", "kernels"));
            try (Device device = Selection.choose("metal").backend().open(options)) {
                GoldenFolder golden = new GoldenFolder(GOLDEN, device, precision, Fallback.FORBIDDEN);
                ObjectNode report =
                        golden.model(name, GoldenTolerances.of(device, precision), REPLAYS, Optional.empty());
                System.out.println(name + " " + type + ": " + report);
                assertThat(report.path("pass").asBoolean())
                        .as(report.toPrettyString())
                        .isTrue();
            }
            assertThat(standIn.violations()).isEmpty();
            assertThat(standIn.live()).isEmpty();
        }
    }
}
