package dev.starforge.cli.command;

import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.options.OutputPath;
import dev.starforge.cli.output.ProgressBar;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.model.gguf.GgufFileType;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.TrainException;
import dev.starforge.train.merge.ModelQuantizer;
import dev.starforge.train.tune.TunedModel;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "quantize",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Quantize a model to a smaller GGUF file.",
            "",
            "Rounds weights to nearest. The type of each tensor follows llama-quantize (q4_k is Q4_K_M). Only a part"
                    + " of a tensor is in memory at a time. Run the same command again to resume an interrupted"
                    + " quantization from FILE.incomplete. FILE.report.json lists the quantization error of each tensor.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge quantize MODEL --to q8_0 --out MODEL-Q8_0.gguf",
            "  starforge quantize MERGED --to q4_k --out TUNED-Q4_K.gguf --json",
            "  starforge quantize MODEL-Q8_0.gguf --to q4_0 --allow-requantize \\",
            "      --out MODEL-Q4_0.gguf",
        })
final class QuantizeCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @ArgGroup(multiplicity = "1")
    private Source source;

    /** The model to quantize. */
    private static final class Source {
        @Parameters(
                index = "0",
                paramLabel = "MODEL",
                description = "Model: a folder with config.json and safetensors, a GGUF file, a model name, or a run"
                        + " that trained all weights.")
        private String positional;

        @Option(names = "--model", paramLabel = "MODEL", description = "Same as MODEL.")
        private String named;

        String name() {
            return positional != null ? positional : named;
        }
    }

    @Option(
            names = "--to",
            required = true,
            paramLabel = "TYPE",
            description = "Quantization type: q8_0, q6_k, q4_k or q4_0.")
    private String to;

    @Option(names = "--out", required = true, paramLabel = "FILE", description = "New .gguf file.")
    private Path out;

    @Option(
            names = "--allow-requantize",
            description =
                    "Allow tensors that are already quantized to another type, which is less accurate than quantizing"
                            + " the original.")
    private boolean requantize;

    @Option(names = "--json", description = "Print the full report as JSON.")
    private boolean json;

    @Override
    public Integer call() {
        GgufFileType type = type();
        if (!out.toString().endsWith(".gguf")) {
            throw new ParameterException(spec.commandLine(), "--out " + out + ": expected a .gguf file");
        }
        OutputPath.require("--out", out, spec.commandLine());
        PrintWriter err = spec.commandLine().getErr();
        TunedModel tuned = ModelFlags.describe(
                TunedModel.of(ModelLocator.find(source.name(), ModelFlags.WANTED), Optional.empty(), ModelFlags::base),
                err);
        if (tuned.adapter().isPresent()) {
            throw new TrainException(source.name() + " is an adapter; run `starforge merge " + source.name()
                    + " --out MERGED` first and quantize MERGED");
        }
        ProgressBar bar = new ProgressBar(err, DatasetCommand.terminal() && !json);
        try (ShutdownCleanup interruption = ShutdownCleanup.watch(
                        Duration.ofSeconds(5),
                        () -> {},
                        "interrupted; run the same command again to resume " + out,
                        err);
                Device device =
                        Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("unused")))) {
            ObjectNode report = new ModelQuantizer(tuned.model(), type, requantize, device)
                    .write(out, (tensor, done, total) -> {
                        interruption.check();
                        if (bar.isTerminal()) {
                            bar.draw("quantize", done, total, tensor);
                        }
                    });
            interruption.finished();
            bar.clear();
            print(report);
        }
        return ExitCode.DONE;
    }

    private GgufFileType type() {
        return Arrays.stream(GgufFileType.values())
                .filter(each -> each.name().equalsIgnoreCase(to))
                .findFirst()
                .orElseThrow(() -> new ParameterException(
                        spec.commandLine(),
                        "--to: expected "
                                + Arrays.stream(GgufFileType.values())
                                        .map(each -> each.name().toLowerCase(Locale.ROOT))
                                        .collect(Collectors.joining(", "))
                                + ", got " + to));
    }

    /** Prints the report; without --json, only the tensors with a different type. */
    private void print(ObjectNode report) {
        PrintWriter outWriter = spec.commandLine().getOut();
        if (!json) {
            for (JsonNode tensor : report.path("tensors")) {
                if (tensor.has("instead_of")) {
                    outWriter.println(tensor.path("name").stringValue() + ": "
                            + tensor.path("type").stringValue() + " instead of "
                            + tensor.path("instead_of").stringValue()
                            + ", since its rows are not a multiple of the block size");
                }
            }
            report.remove("tensors");
            report.put("report", ModelQuantizer.reportOf(out).toString());
        }
        ReportOutput.print(outWriter, report, json);
    }
}
