package dev.starforge.cli;

import dev.starforge.model.ModelException;
import dev.starforge.model.file.SafetensorsFile;
import dev.starforge.model.generate.Sampling;
import dev.starforge.tensor.TensorException;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
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
        versionProvider = Main.Version.class,
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
    /**
     * What the project promises: logits to 1e-4 of their range for the reference, which sums in double and differs by the
     * rounding of the other side, and 2e-3 for float32 kernels; losses to 1e-4, gradients to 1e-3 of their norm. Measured
     * errors are a hundred times smaller; the room is for larger models than the golden ones.
     */
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
        if (replays < 0) {
            throw new ParameterException(spec.commandLine(), "--replays: expected at least 0, got " + replays);
        }
        PrintWriter out = spec.commandLine().getOut();
        List<String> names = names();
        if (dump != null) {
            Files.createDirectories(dump);
        }
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
                pass &= add(models, "model", verify(name, opened, tolerances));
            }
            if (only.isEmpty()) {
                pass &= verifyFormats(root, opened);
            }
        }
        root.put("pass", pass);
        if (json) {
            Json.print(out, root);
        }
        return pass ? 0 : 1;
    }

    /** Keeps a report, shows it to a person, and says whether it passed. */
    private boolean add(ArrayNode reports, String what, ObjectNode report) {
        reports.add(report);
        if (!json) {
            print(spec.commandLine().getOut(), report, what);
        }
        return report.path("pass").booleanValue();
    }

    private boolean verifyFormats(ObjectNode root, DeviceFlags.Opened opened) throws IOException {
        boolean pass = true;
        ArrayNode tokenizers = root.putArray("tokenizers");
        for (Path tokenizer : entries("tokenizers", "")) {
            if (Files.exists(tokenizer.resolve("expected.json"))) {
                pass &= add(tokenizers, "tokenizer", GoldenFormats.tokenizer(tokenizer));
            }
        }
        ArrayNode samplings = root.putArray("sampling");
        Path sampling = folder.resolve("sampling.safetensors");
        if (Files.exists(sampling)) {
            try (SafetensorsFile file = SafetensorsFile.open(sampling)) {
                for (Map.Entry<String, Sampling> each : GoldenFormats.SAMPLINGS.entrySet()) {
                    pass &= add(samplings, "sampling", GoldenFormats.sampling(file, each.getKey(), each.getValue()));
                }
            }
        }
        ArrayNode groups = root.putArray("int8_groups");
        Path int8 = folder.resolve("int8_group.safetensors");
        if (Files.exists(int8)) {
            try (SafetensorsFile file = SafetensorsFile.open(int8)) {
                for (String tensor : file.tensors().keySet()) {
                    if (tensor.endsWith(".w")) {
                        String name = tensor.substring(0, tensor.length() - 2);
                        pass &= add(groups, "int8 groups", GoldenFormats.int8Groups(file, name));
                    }
                }
            }
        }
        ArrayNode types = root.putArray("gguf");
        for (Path file : entries("gguf", ".gguf")) {
            String name = file.getFileName().toString();
            if (!name.startsWith("micro-")) {
                continue;
            }
            String type = name.substring("micro-".length(), name.length() - ".gguf".length());
            pass &= add(
                    types,
                    "gguf",
                    GoldenFormats.gguf(
                            folder.resolve("gguf"),
                            type,
                            opened.device(),
                            flags.convertedPrecision(),
                            flags.fallback()));
        }
        return pass;
    }

    /** The entries of a part of the folder that end so, in order; none where the part is missing. */
    private List<Path> entries(String part, String ending) throws IOException {
        Path parent = folder.resolve(part);
        if (!Files.isDirectory(parent)) {
            return List.of();
        }
        try (Stream<Path> entries = Files.list(parent)) {
            return entries.filter(path -> path.toString().endsWith(ending))
                    .sorted()
                    .toList();
        }
    }

    private ObjectNode verify(String name, DeviceFlags.Opened opened, Golden.Tolerances tolerances) throws IOException {
        Path model = folder.resolve("models").resolve(name);
        try {
            Golden golden =
                    new Golden(model, opened.device(), flags.convertedPrecision(), flags.fallback(), tolerances);
            ObjectNode report = golden.verify(replays);
            if (dump != null) {
                SafetensorsFile.write(dump.resolve(name + ".safetensors"), golden.computed());
            }
            return report;
        } catch (ModelException | TensorException unusable) {
            return Json.object()
                    .put("name", name)
                    .put("error", unusable.getMessage())
                    .put("pass", false);
        }
    }

    private List<String> names() throws IOException {
        Path models = folder.resolve("models");
        if (!Files.isDirectory(models)) {
            throw new ModelException(folder, "expected a folder with models/ in it");
        }
        TreeSet<String> found = new TreeSet<>();
        try (Stream<Path> entries = Files.list(models)) {
            entries.filter(Files::isDirectory)
                    .forEach(path -> found.add(path.getFileName().toString()));
        }
        if (found.isEmpty()) {
            throw new ModelException(models, "expected a folder for each model in it");
        }
        for (String name : only) {
            if (!found.contains(name)) {
                throw new ParameterException(
                        spec.commandLine(), "--only " + name + ": not among " + String.join(", ", found));
            }
        }
        return only.isEmpty() ? List.copyOf(found) : only;
    }

    private static void print(PrintWriter out, ObjectNode report, String what) {
        boolean pass = report.path("pass").booleanValue();
        String name = report.path("name").asString(report.path("type").asString(""));
        out.println((pass ? "pass " : "FAIL ") + what + " " + name);
        report.properties().forEach(entry -> {
            if (!List.of("name", "type", "pass").contains(entry.getKey())
                    && !entry.getValue().isNull()) {
                out.printf(
                        Locale.ROOT,
                        "  %-30s %s%n",
                        entry.getKey(),
                        entry.getValue().isFloatingPointNumber()
                                ? String.format(
                                        Locale.ROOT, "%.3g", entry.getValue().doubleValue())
                                : entry.getValue().asString());
            }
        });
        out.flush();
    }
}
