package dev.starforge.cli.command;

import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.options.DeviceSelectionFlags;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.options.OutputPath;
import dev.starforge.cli.output.ProgressBar;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.output.Terminal;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.data.Split;
import dev.starforge.model.gguf.GgufFileType;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.tensor.Precision;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.TrainException;
import dev.starforge.train.merge.ModelQuantizer;
import dev.starforge.train.quantize.Calibration;
import dev.starforge.train.quantize.CalibrationText;
import dev.starforge.train.quantize.QuantizationQuality;
import dev.starforge.train.text.Tokenizers;
import dev.starforge.train.tune.TunedModel;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
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
            "The type of each tensor follows llama-quantize (q4_k is q4_k_m). Only a part of a tensor is in memory at a"
                    + " time. Run the same command again to resume an interrupted quantization from FILE.incomplete."
                    + " FILE.report.json lists the quantization error of each tensor.",
            "",
            "Weights are rounded to nearest, or with --calibration so that the error is small where activations are"
                    + " large: the model runs over the text and collects an importance matrix. This lowers the KL"
                    + " divergence most below 5 bits. Use text like that which the model will complete.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge quantize MODEL --to q8_0 --out MODEL-Q8_0.gguf",
            "  starforge quantize MERGED --to q4_k --out TUNED-Q4_K.gguf --json",
            "  starforge quantize MERGED --to q3_k_m --calibration DATASET \\",
            "      --evaluate DATASET --out TUNED-Q3_K_M.gguf",
            "  starforge quantize MODEL-Q8_0.gguf --to q4_0 --allow-requantize \\",
            "      --out MODEL-Q4_0.gguf",
        })
final class QuantizeCommand implements Callable<Integer> {
    private static final Precision PRECISION = Precision.FLOAT32.withWeightsAsStored();

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
            description =
                    "Quantization type: q8_0, q6_k, q5_k_m, q5_k_s, q5_1, q5_0, q4_k_m, q4_k_s, q4_1, q4_0, q3_k_l,"
                            + " q3_k_m, q3_k_s or q2_k; q5_k, q4_k and q3_k are the m types.")
    private String to;

    @Option(names = "--out", required = true, paramLabel = "FILE", description = "New .gguf file.")
    private Path out;

    @Option(
            names = "--allow-requantize",
            description =
                    "Allow tensors that are already quantized to another type, which is less accurate than quantizing"
                            + " the original.")
    private boolean requantize;

    @Option(
            names = "--calibration",
            paramLabel = "TEXT",
            description = "Text to collect an importance matrix from: a UTF-8 file, or the training split of a dataset."
                    + " The matrix is written to FILE.imatrix.gguf.")
    private @Nullable Path calibration;

    @Option(
            names = "--imatrix",
            paramLabel = "MATRIX",
            description = "Importance matrix of an earlier --calibration or of llama-imatrix (.gguf).")
    private @Nullable Path imatrix;

    @Option(
            names = "--evaluate",
            paramLabel = "TEXT",
            description =
                    "Compare the result with MODEL on held-out text: a UTF-8 file, or the test split of a dataset."
                            + " Adds perplexity, KL divergence and the share of equal top tokens to the report.")
    private @Nullable Path evaluation;

    @Option(
            names = "--chunks",
            paramLabel = "N",
            defaultValue = "64",
            description = "Sequences of 512 tokens to use of each TEXT, spread evenly. Default: ${DEFAULT-VALUE}.")
    private int chunks;

    @Mixin
    private DeviceSelectionFlags place;

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
        ProgressBar bar = new ProgressBar(err, Terminal.isTerminal() && !json);
        try (ShutdownCleanup interruption = ShutdownCleanup.watch(
                        Duration.ofSeconds(5),
                        () -> {},
                        "interrupted; run the same command again to resume " + out,
                        err);
                Device device = open()) {
            Optional<Path> matrix = importance(tuned.model(), device, bar, interruption);
            ObjectNode report = new ModelQuantizer(tuned.model(), type, matrix, requantize, device)
                    .write(out, (tensor, done, total) -> {
                        interruption.check();
                        draw(bar, "quantize", done, total, tensor);
                    });
            if (evaluation != null) {
                evaluate(tuned.model(), device, bar, interruption)
                        .report(report.putObject("quality").put("text", evaluation.toString()));
                ModelQuantizer.save(out, report);
            }
            interruption.finished();
            bar.clear();
            print(report);
        }
        return ExitCode.DONE;
    }

    /** Opens the device that computes, or a device for planning if nothing is computed. */
    private Device open() {
        if (chunks < 4) {
            throw new ParameterException(spec.commandLine(), "--chunks: expected at least 4, got " + chunks);
        }
        if (calibration != null && imatrix != null) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--calibration and --imatrix cannot be combined: both give an importance matrix");
        }
        if (calibration != null || evaluation != null) {
            return place.open(place.choose());
        }
        return Selection.choose("reference").backend().open(new DeviceOptions(0, 1, Path.of("unused")));
    }

    /** Returns the file of the importance matrix, collected first if there is calibration text. */
    private Optional<Path> importance(Path from, Device device, ProgressBar bar, ShutdownCleanup interruption) {
        if (calibration == null) {
            return Optional.ofNullable(imatrix);
        }
        Path file = out.resolveSibling(out.getFileName() + ".imatrix.gguf");
        CalibrationText text = text(calibration, Split.TRAIN, from);
        Calibration.collect(from, text, device, PRECISION, done -> {
                    interruption.check();
                    draw(bar, "calibrate", done, text.chunks().size(), done * CalibrationText.CHUNK + " tokens");
                })
                .write(file);
        return Optional.of(file);
    }

    private QuantizationQuality evaluate(Path from, Device device, ProgressBar bar, ShutdownCleanup interruption) {
        CalibrationText text = text(Objects.requireNonNull(evaluation), Split.TEST, from);
        return QuantizationQuality.measure(from, out, text, device, PRECISION, done -> {
            interruption.check();
            draw(bar, "evaluate", done, text.chunks().size(), done * CalibrationText.CHUNK + " tokens");
        });
    }

    private CalibrationText text(Path source, Split split, Path from) {
        try (ModelFiles files = ModelFiles.open(from)) {
            int vocabulary = files.config().size("vocab_size");
            return CalibrationText.read(source, split, Tokenizers.require(from, "calibration"), vocabulary, chunks);
        }
    }

    private static void draw(ProgressBar bar, String stage, long done, long total, String text) {
        if (bar.isTerminal()) {
            bar.draw(stage, done, total, text);
        }
    }

    private GgufFileType type() {
        return GgufFileType.named(to)
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
            if (report.remove("quality") instanceof ObjectNode quality) {
                report.setAll(quality.without("text"));
            }
            report.put("report", ModelQuantizer.reportOf(out).toString());
        }
        ReportOutput.print(outWriter, report, json);
    }
}
