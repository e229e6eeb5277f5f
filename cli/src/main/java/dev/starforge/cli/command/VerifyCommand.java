package dev.starforge.cli.command;

import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.verify.GoldenFolder;
import dev.starforge.train.verify.GoldenTolerances;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Callable;
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
        versionProvider = RootCommand.Version.class,
        description = {
            "Compare models with the results of another implementation.",
            "",
            "Compares logits, greedy text, losses, gradients and training steps with recorded results.",
            "",
        },
        footerHeading = "%nLayout:%n",
        footer = {
            "  FOLDER/models/NAME/ has config.json, model.safetensors, optionally adapter/,",
            "  and the recorded results in expected.safetensors and expected.json.",
            "",
            "Examples:",
            "  starforge verify GOLDEN --only starcoder2,llama3",
            "  starforge verify GOLDEN --device cuda --replays 1000 --json",
            "  starforge verify GOLDEN --dump RESULTS",
        },
        sortOptions = false)
final class VerifyCommand implements Callable<Integer> {
    /** Labels of the sections of the report. */
    private static final Map<String, String> KINDS = Map.of(
            "models", "model",
            "tokenizers", "tokenizer",
            "sampling", "sampling",
            "int8_groups", "int8 groups",
            "gguf", "gguf");

    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceFlags flags;

    @Parameters(paramLabel = "FOLDER", description = "Folder that contains models/.")
    private Path folder;

    @Option(
            names = "--only",
            split = ",",
            paramLabel = "NAME",
            description = "Models to verify, separated by commas. Default: all.")
    private List<String> only = List.of();

    @Option(
            names = "--replays",
            defaultValue = "10",
            paramLabel = "N",
            description = "Number of repeated decode steps that must be bit-identical; 0 also skips the comparison of"
                    + " batches of one to eight sequences. Default: ${DEFAULT-VALUE}.")
    private int replays;

    @Option(
            names = "--dump",
            paramLabel = "DIR",
            description = "Folder for the computed results, one NAME.safetensors per model.")
    private Path dump;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() throws IOException {
        if (replays < 0) {
            throw new ParameterException(spec.commandLine(), "--replays: expected at least 0, got " + replays);
        }
        List<String> names = names();
        if (dump != null) {
            Files.createDirectories(dump);
        }
        ObjectNode root = Jackson.object();
        try (DeviceFlags.Opened opened = flags.open()) {
            GoldenTolerances tolerances = GoldenTolerances.of(opened.device(), flags.convertedPrecision());
            root.put("device", opened.device().name());
            root.put("precision", flags.convertedPrecision().compute().name());
            root.put("logits_tolerance", tolerances.logits());
            root.put("loss_tolerance", tolerances.loss());
            root.put("grad_tolerance", tolerances.gradient());
            root.putArray("models");
            GoldenFolder golden =
                    new GoldenFolder(folder, opened.device(), flags.convertedPrecision(), flags.fallback());
            for (String name : names) {
                add(root, "models", golden.model(name, tolerances, replays, Optional.ofNullable(dump)));
            }
            if (only.isEmpty()) {
                List.of("tokenizers", "sampling", "int8_groups", "gguf").forEach(root::putArray);
                golden.formats((section, report) -> add(root, section, report));
            }
        }
        boolean pass = KINDS.keySet().stream()
                .flatMap(section -> root.path(section).valueStream())
                .allMatch(report -> report.path("pass").booleanValue());
        root.put("pass", pass);
        if (json) {
            ReportOutput.json(spec.commandLine().getOut(), root);
        }
        return pass ? 0 : 1;
    }

    /** Adds a report to the result and prints it unless --json is given. */
    private void add(ObjectNode root, String section, ObjectNode report) {
        ((ArrayNode) root.path(section)).add(report);
        if (!json) {
            print(spec.commandLine().getOut(), report, Objects.requireNonNull(KINDS.get(section), section));
        }
    }

    private List<String> names() throws IOException {
        List<String> found = GoldenFolder.models(folder);
        for (String name : only) {
            if (!found.contains(name)) {
                throw new ParameterException(
                        spec.commandLine(),
                        "--only: expected names among " + String.join(", ", found) + ", got " + name);
            }
        }
        return only.isEmpty() ? found : only;
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
