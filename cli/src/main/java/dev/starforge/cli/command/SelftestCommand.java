package dev.starforge.cli.command;

import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.DeviceSelectionFlags;
import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Selection;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.verify.SelfTest;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "selftest",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Check that a device computes correct results.",
            "",
            "Compares a tiny model with PyTorch (logits, text, losses, gradients, training), quantized formats with"
                    + " llama.cpp, and each operation with the reference. Takes less than a minute; needs no files and no"
                    + " network. The exit code is 1 if a test fails.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {"  starforge selftest", "  starforge selftest --device cuda", "  starforge selftest --json"})
final class SelftestCommand implements Callable<Integer> {
    private static final String MODEL = "starcoder2";

    /** Resources with golden results, a subset of the golden folder that the build packages. */
    private static final List<String> FILES = List.of(
            "models/starcoder2/config.json",
            "models/starcoder2/generation_config.json",
            "models/starcoder2/tokenizer.json",
            "models/starcoder2/model.safetensors",
            "models/starcoder2/expected.json",
            "models/starcoder2/expected.safetensors",
            "models/starcoder2/adapter/adapter_config.json",
            "models/starcoder2/adapter/adapter_model.safetensors",
            "gguf/expected.json",
            "gguf/expected.safetensors",
            "gguf/micro-Q8_0.gguf",
            "gguf/micro-Q4_K.gguf");

    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceSelectionFlags place;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() throws IOException {
        Path golden = Files.createTempDirectory("starforge-selftest");
        try {
            unpack(golden);
            return check(golden);
        } finally {
            ShutdownCleanup.remove(golden);
        }
    }

    private static void unpack(Path golden) throws IOException {
        for (String name : FILES) {
            Path file = golden.resolve(name);
            Files.createDirectories(file.getParent());
            try (InputStream in = SelftestCommand.class.getResourceAsStream("/dev/starforge/cli/golden/" + name)) {
                if (in == null) {
                    throw new IOException("selftest: missing resource golden/" + name);
                }
                Files.copy(in, file);
            }
        }
    }

    private int check(Path golden) throws IOException {
        PrintWriter out = spec.commandLine().getOut();
        long began = System.nanoTime();
        Selection selection = place.choose();
        ObjectNode report = Jackson.object();
        report.put("version", new RootCommand.Version().getVersion()[0]);
        report.put(
                "system",
                String.join(
                        " ",
                        System.getProperty("os.name"),
                        System.getProperty("os.version"),
                        System.getProperty("os.arch")));
        boolean pass;
        try (Device device = place.open(selection);
                Device reference = Selection.choose("reference")
                        .backend()
                        .open(new DeviceOptions(0, 1, DeviceFlags.kernelCache()))) {
            Probe.DetectedDevice found = selection.backend().probe().devices().get(place.index());
            report.put("device", selection.backend().name() + " - " + found.name() + ", " + found.detail());
            ArrayNode checks = report.putArray("checks");
            pass = new SelfTest(golden, MODEL, device, reference).run(check -> {
                checks.addObject()
                        .put("name", check.name())
                        .put("pass", check.pass())
                        .put("detail", check.detail());
                if (!json) {
                    out.println((check.pass() ? "pass " : "FAIL ") + check.name() + ": " + Escaped.of(check.detail()));
                    out.flush();
                }
            });
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        report.put("seconds", seconds).put("healthy", pass);
        if (json) {
            ReportOutput.json(out, report);
        } else {
            conclude(out, report, pass, seconds);
        }
        return pass ? ExitCode.DONE : ExitCode.FAILED;
    }

    private static void conclude(PrintWriter out, ObjectNode report, boolean pass, double seconds) {
        if (pass) {
            out.println(String.format(
                    Locale.ROOT, "healthy: %s (%.0f s)", report.path("device").asString(), seconds));
        } else {
            out.println("NOT healthy: results of this device are wrong; try --device cpu. Please report the lines above"
                    + " and below; they contain no private data:");
            List.of("version", "system", "device")
                    .forEach(key -> out.println(
                            "  " + key + ": " + Escaped.of(report.path(key).asString())));
        }
        out.flush();
    }
}
