package dev.starforge.cli;

import dev.starforge.model.ModelException;
import dev.starforge.model.SafetensorsFile;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "verify",
        mixinStandardHelpOptions = true,
        description = "Computes what another implementation computed, and compares: logits, greedy text, losses, "
                + "gradients, training steps.",
        footerHeading = "%nLayout:%n",
        footer = {
            "  FOLDER/models/NAME/ holds config.json, model.safetensors, adapter/ (optional), and the other",
            "  implementation's results in expected.safetensors and expected.json.",
            "",
            "Examples:",
            "  starforge verify GOLDEN --only starcoder2,llama3",
            "  starforge verify GOLDEN --device cuda --replays 1000 --json",
            "  starforge verify GOLDEN --dump OURS",
        })
final class VerifyVerb implements Callable<Integer> {
    private static final Golden.Tolerances EXACT = new Golden.Tolerances(1e-4, 1e-4, 1e-3);
    private static final Golden.Tolerances FAST = new Golden.Tolerances(2e-3, 1e-4, 1e-3);

    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceFlags flags;

    @Parameters(paramLabel = "FOLDER", description = "Where models/ is.")
    private Path folder;

    @Option(names = "--only", split = ",", paramLabel = "NAME", description = "Just these models, separated by commas.")
    private List<String> only = List.of();

    @Option(
            names = "--replays",
            defaultValue = "10",
            paramLabel = "N",
            description =
                    "How often a decode step is repeated to see that it gives the same bits. Default: ${DEFAULT-VALUE}.")
    private int replays;

    @Option(
            names = "--dump",
            paramLabel = "DIR",
            description = "Write what was computed to DIR/NAME.safetensors, under the names of expected.safetensors.")
    private Path dump;

    @Option(names = "--json", description = "For machines.")
    private boolean json;

    @Override
    public Integer call() throws IOException {
        PrintWriter out = spec.commandLine().getOut();
        List<String> names = names();
        ObjectNode root = Json.object();
        boolean pass = true;
        try (DeviceFlags.Opened opened = flags.open()) {
            Golden.Tolerances tolerances = opened.device().name().equals("reference") ? EXACT : FAST;
            root.put("device", opened.device().name());
            root.put("logits_tolerance", tolerances.logits());
            root.put("loss_tolerance", tolerances.loss());
            root.put("grad_tolerance", tolerances.gradient());
            ArrayNode models = root.putArray("models");
            for (String name : names) {
                ObjectNode report = verify(name, opened, tolerances);
                models.add(report);
                pass &= report.path("pass").booleanValue();
                if (!json) {
                    print(out, report, opened.device().name());
                }
            }
        }
        root.put("pass", pass);
        if (json) {
            Json.print(out, root);
        }
        return pass ? 0 : 1;
    }

    private ObjectNode verify(String name, DeviceFlags.Opened opened, Golden.Tolerances tolerances) throws IOException {
        Path model = folder.resolve("models").resolve(name);
        try {
            Golden golden = new Golden(model, opened.device(), flags.precision(), flags.fallback(), tolerances);
            ObjectNode report = golden.verify(replays);
            if (dump != null) {
                Files.createDirectories(dump);
                SafetensorsFile.write(dump.resolve(name + ".safetensors"), golden.computed());
            }
            return report;
        } catch (ModelException unusable) {
            return Json.object()
                    .put("name", name)
                    .put("error", unusable.getMessage())
                    .put("pass", false);
        }
    }

    private List<String> names() throws IOException {
        Path models = folder.resolve("models");
        if (!Files.isDirectory(models)) {
            throw new ParameterException(spec.commandLine(), folder + ": expected a folder with models/ in it");
        }
        TreeSet<String> found = new TreeSet<>();
        try (Stream<Path> entries = Files.list(models)) {
            entries.filter(Files::isDirectory)
                    .forEach(path -> found.add(path.getFileName().toString()));
        }
        for (String name : only) {
            if (!found.contains(name)) {
                throw new ParameterException(
                        spec.commandLine(), "--only " + name + ": not among " + String.join(", ", found));
            }
        }
        return only.isEmpty() ? List.copyOf(found) : only;
    }

    private static void print(PrintWriter out, ObjectNode report, String device) {
        boolean pass = report.path("pass").booleanValue();
        out.printf(
                Locale.ROOT,
                "%s %s on %s%n",
                pass ? "pass" : "FAIL",
                report.path("name").stringValue(),
                device);
        report.properties().forEach(entry -> {
            if (!entry.getKey().equals("name")
                    && !entry.getKey().equals("pass")
                    && !entry.getValue().isNull()) {
                out.printf(
                        Locale.ROOT,
                        "  %-30s %s%n",
                        entry.getKey(),
                        entry.getValue().isNumber()
                                ? String.format(
                                        Locale.ROOT, "%.3g", entry.getValue().doubleValue())
                                : entry.getValue().asString());
            }
        });
        out.flush();
    }
}
