package dev.starforge.train.verify;

import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.Fallback;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import tools.jackson.databind.node.ObjectNode;

/**
 * Tests in less than a minute whether a device computes correctly, with a small golden folder: logits, generated
 * tokens, losses, gradients and training steps of its model against another implementation, files of quantized weights
 * against llama.cpp, and each operation of the model against the reference backend.
 *
 * @param golden folder for {@link GoldenFolder}, with one model
 */
public record SelfTest(Path golden, String model, Device device, Device reference) {
    private static final int REPLAYS = 10;

    /** Largest error of an operation, as a share of its largest output: float32 sums may be in another order. */
    private static final double TOLERANCE = 1e-4;

    /** @param detail the measured result, or the failure */
    public record Check(String name, boolean pass, String detail) {}

    /** Runs all checks and reports each result. Returns true if all passed. */
    public boolean run(Consumer<Check> onCheck) throws IOException {
        GoldenFolder folder = new GoldenFolder(golden, device, Precision.FLOAT32, Fallback.QUIET);
        boolean[] pass = {true};
        Consumer<Check> noted = check -> {
            pass[0] &= check.pass();
            onCheck.accept(check);
        };
        ObjectNode report =
                folder.model(model, GoldenTolerances.of(device, Precision.FLOAT32), REPLAYS, Optional.empty());
        noted.accept(check("model " + model, report));
        folder.formats((section, each) ->
                noted.accept(check(section + " " + each.path("type").asString(), each)));
        operations(noted);
        return pass[0];
    }

    private static Check check(String name, ObjectNode report) {
        return new Check(name, report.path("pass").booleanValue(), summary(report));
    }

    private static String summary(ObjectNode report) {
        if (report.has("error")) {
            return report.path("error").asString();
        }
        return String.format(
                Locale.ROOT,
                "logits differ by %.2g, with a range of %.3g",
                report.path("logits_max_abs_error").doubleValue(),
                report.path("logits_range").doubleValue());
    }

    private void operations(Consumer<Check> onCheck) {
        ComparedDevice compared = new ComparedDevice(device, reference);
        GoldenFolder folder = new GoldenFolder(golden, compared, Precision.FLOAT32, Fallback.QUIET);
        folder.model(model, GoldenTolerances.of(device, Precision.FLOAT32), 0, Optional.empty());
        Map<String, Double> errors = compared.errors();
        List<String> wrong = errors.entrySet().stream()
                .filter(each -> !(each.getValue() <= TOLERANCE))
                .map(each -> String.format(Locale.ROOT, "%s by %.2g", each.getKey(), each.getValue()))
                .toList();
        double worst =
                errors.values().stream().mapToDouble(Double::doubleValue).max().orElse(Double.NaN);
        onCheck.accept(new Check(
                "operations",
                !errors.isEmpty() && wrong.isEmpty(),
                wrong.isEmpty()
                        ? String.format(
                                Locale.ROOT,
                                "%d operations differ from the reference by at most %.2g of their largest output",
                                errors.size(),
                                worst)
                        : "differ from the reference: " + String.join(", ", wrong)));
    }
}
