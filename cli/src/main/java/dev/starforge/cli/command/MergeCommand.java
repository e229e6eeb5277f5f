package dev.starforge.cli.command;

import dev.starforge.cli.options.ConfigFileFlags;
import dev.starforge.cli.options.DeviceSelectionFlags;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.options.OutputPath;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.model.Quantization;
import dev.starforge.model.lora.LoraAdapter;
import dev.starforge.tensor.device.Device;
import dev.starforge.text.json.Jackson;
import dev.starforge.text.report.ShellQuoting;
import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.merge.Merge;
import dev.starforge.train.merge.MergeOutput;
import dev.starforge.train.merge.MergeProof;
import dev.starforge.train.merge.ModelExport;
import dev.starforge.train.merge.ModelFormat;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "merge",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Merge an adapter into its base model.",
            "",
            "Writes a folder with safetensors for HF, or a GGUF file for llama.cpp. Default format: GGUF if --out ends"
                    + " in .gguf, otherwise the format of the base. The result is read back, and its logits are compared"
                    + " with those of base and adapter; if they differ, no file is written and the exit code is 1.",
            "",
            "For a run that trained all weights, the trained model is written.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge merge RUN --out MERGED",
            "  starforge merge --config train.yaml",
            "  starforge merge RUN --out MERGED --onto stored",
            "  starforge merge ADAPTER --base MODEL --out MERGED --type bf16",
            "  starforge merge RUN --out MERGED.gguf --type f16",
            "  starforge merge ADAPTER --base MODEL.gguf --out MERGED.gguf",
            "  starforge merge ADAPTER --base MODEL.gguf --out MERGED --format hf --type bf16",
            "  starforge merge ADAPTER --base MODEL --gguf-adapter ADAPTER.gguf",
        })
final class MergeCommand implements Callable<Integer> {
    private static final long SHARD = 4L << 30;

    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceSelectionFlags place;

    @Mixin
    private ConfigFileFlags settings;

    @Parameters(
            paramLabel = "ADAPTER",
            arity = "0..1",
            description =
                    "Adapter folder, checkpoint or run (best checkpoint). Default with --config: output.output_dir,"
                            + " with --out named after it plus -merged, or -merged.gguf for a GGUF base.")
    private Path adapter;

    @Option(names = "--base", paramLabel = "MODEL", description = "Base model. Default: the base named in the adapter.")
    private String base;

    @Option(
            names = "--onto",
            paramLabel = "WEIGHTS",
            defaultValue = "trained",
            converter = Onto.Parser.class,
            description =
                    "Base weights to merge into: `trained` (as in training, dequantized if the base was quantized) or"
                            + " `stored` (as in the file). Default: ${DEFAULT-VALUE}.")
    private Onto onto;

    @Option(names = "--out", paramLabel = "PATH", description = "New folder or .gguf file.")
    private Path out;

    @Option(
            names = "--format",
            paramLabel = "FORM",
            description = "Output format: hf or gguf. Default: gguf if --out ends in .gguf, otherwise the format of the"
                    + " base.")
    private String format;

    @Option(
            names = "--type",
            paramLabel = "TYPE",
            defaultValue = "",
            description =
                    "Type of the matrices: F32, BF16 or F16; from GGUF to GGUF, only of the changed ones. Default: the"
                            + " types of the base, with F16 for changed matrices that are quantized in it, or F32 if that would"
                            + " lose a part of a small adapter; F32 from GGUF to a folder. `starforge quantize` makes the result smaller.")
    private String type;

    @Option(
            names = "--gguf-adapter",
            paramLabel = "FILE",
            description = "New GGUF file for the adapter alone, for llama.cpp.")
    private Path ggufAdapter;

    @Option(
            names = "--shard-bytes",
            paramLabel = "N",
            description = "Maximum size of a safetensors file. Default: 4 GiB.")
    private long shardBytes = SHARD;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    /** Base weights that an adapter is merged into. */
    private enum Onto {
        TRAINED,
        STORED;

        static final class Parser implements CommandLine.ITypeConverter<Onto> {
            @Override
            public Onto convert(String given) {
                return switch (given) {
                    case "trained" -> TRAINED;
                    case "stored" -> STORED;
                    default ->
                        throw new CommandLine.TypeConversionException("expected trained or stored, got " + given);
                };
            }
        }
    }

    /** Takes the run and the device from the configuration file, unless options name them. */
    private void takeSettings() {
        RunConfig config = settings.flags(settings.file(RunConfig.defaults()), List.of());
        place.otherwise(config);
        if (adapter != null) {
            return;
        }
        if (!settings.hasFile() && !config.isSet(Keys.OUTPUT)) {
            throw new ParameterException(spec.commandLine(), "Missing required parameter: 'ADAPTER'");
        }
        adapter = config.output();
        if (out == null && ggufAdapter == null) {
            out = MergeOutput.of(adapter, isGguf(adapter));
        }
    }

    /** Returns true if the output for a run is a GGUF file by default. */
    private boolean isGguf(Path run) {
        if (format != null) {
            return format.equals("gguf");
        }
        Path checkpoint = Checkpoints.resolve(run);
        return !ModelExport.isModel(checkpoint)
                && Merge.formatOf(TunedModel.baseOf(adapterOf(run), Optional.ofNullable(base), ModelFlags::base))
                        == ModelFormat.GGUF;
    }

    private static Path adapterOf(Path run) {
        return TunedModel.adapterOf(
                run, "it needs no merge; `starforge export " + run + " --out NAME.gguf` converts it to GGUF");
    }

    @Override
    public Integer call() throws IOException {
        takeSettings();
        if (out == null && ggufAdapter == null) {
            throw new ParameterException(spec.commandLine(), "missing option: --out, --gguf-adapter or both");
        }
        if (!List.of("", "F32", "BF16", "F16").contains(type.toUpperCase(Locale.ROOT)) || shardBytes < 1) {
            throw new ParameterException(
                    spec.commandLine(), "--type: expected F32, BF16 or F16; --shard-bytes: expected at least 1");
        }
        if (out == null && (format != null || !type.isEmpty())) {
            throw new ParameterException(spec.commandLine(), "--type and --format require --out");
        }
        if (format != null && !List.of("hf", "gguf").contains(format)) {
            throw new ParameterException(spec.commandLine(), "--format: expected hf or gguf, got " + format);
        }
        if (out != null) {
            OutputPath.require("--out", out, spec.commandLine());
        }
        if (ggufAdapter != null) {
            OutputPath.require("--gguf-adapter", ggufAdapter, spec.commandLine());
        }
        Path checkpoint = Checkpoints.resolve(adapter);
        if (ModelExport.isModel(checkpoint) && Checkpoints.isCheckpoint(checkpoint)) {
            return export(checkpoint);
        }
        Path lora = adapterOf(adapter);
        Path model = TunedModel.baseOf(lora, Optional.ofNullable(base), ModelFlags::base);
        ModelFormat target = target(model);
        if (target == ModelFormat.GGUF && out != null && !out.toString().endsWith(".gguf")) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--out " + out + ": expected a .gguf file, since the base is one; pass --out "
                            + ShellQuoting.quoted(out.resolveSibling(out.getFileName() + ".gguf"))
                            + ", or --format hf for a folder");
        }
        Quantization trainedOn = LoraAdapter.trainedOn(lora);
        Quantization mergedOnto = onto == Onto.TRAINED ? trainedOn : Quantization.NONE;
        ObjectNode report = Jackson.object();
        report.put("base", model.toString()).put("adapter", lora.toString());
        report.put("trained_on", trainedOn.toString()).put("merged_onto", mergedOnto.toString());
        try (ShutdownCleanup _ = ShutdownCleanup.removing(
                        out == null ? ggufAdapter : out, spec.commandLine().getErr());
                Device device = place.open(place.choose());
                Merge merge = new Merge(model, lora, mergedOnto, device)) {
            if (ggufAdapter != null) {
                merge.writeGgufAdapter(ggufAdapter);
                report.put("gguf_adapter", ggufAdapter.toString());
            }
            if (out != null) {
                describe(report, target, write(merge, out, target));
            }
        }
        ReportOutput.print(spec.commandLine().getOut(), report, json);
        return 0;
    }

    private Merge.Result write(Merge merge, Path to, ModelFormat target) throws IOException {
        if (type.isEmpty()) {
            return merge.write(to, target, "", shardBytes);
        }
        try {
            return merge.writeAs(to, target, type.toUpperCase(Locale.ROOT), shardBytes);
        } catch (Merge.RoundingException rounded) {
            throw new TrainException(rounded.getMessage() + "; --type F32 rounds the merged weights less", rounded);
        }
    }

    /** The format of --format, of the name of --out, or of the base, in this order. */
    private ModelFormat target(Path model) {
        boolean named = out != null && out.toString().endsWith(".gguf");
        return format != null
                ? ModelFormat.valueOf(format.toUpperCase(Locale.ROOT))
                : named ? ModelFormat.GGUF : Merge.formatOf(model);
    }

    private void describe(ObjectNode report, ModelFormat target, Merge.Result result) {
        MergeProof proof = result.proof();
        report.put("out", out.toString()).put("format", target.name().toLowerCase(Locale.ROOT));
        if (!result.notes().isEmpty()) {
            report.put("note", String.join("; ", result.notes()));
        }
        report.put("logits_range", proof.range());
        report.put("largest_difference_to_base_plus_adapter", proof.error());
        report.put("largest_difference_to_base", proof.change());
        report.put("bound", proof.allowed());
        report.put("tokens_compared", proof.tokens());
        report.put("tokens_within_bound", proof.agreeing());
        report.put("proved", true).put("verdict", proof.verdict());
    }

    /** Writes a model with all weights trained in the requested format; there is no adapter to merge. */
    private int export(Path checkpoint) throws IOException {
        if (out == null || base != null || onto == Onto.STORED) {
            throw new ParameterException(
                    spec.commandLine(),
                    checkpoint + ": all weights were trained, so there is no adapter to merge; only --out, --format, "
                            + "--type and --shard-bytes are supported");
        }
        ModelFormat target = target(checkpoint);
        ObjectNode report = Jackson.object();
        try (ShutdownCleanup _ =
                        ShutdownCleanup.removing(out, spec.commandLine().getErr());
                Device device = place.open(place.choose())) {
            ModelExport.Result result =
                    new ModelExport(checkpoint, type.toUpperCase(Locale.ROOT), shardBytes, device).write(out, target);
            report.put("model", checkpoint.toString()).put("out", out.toString());
            report.put("format", target.name().toLowerCase(Locale.ROOT));
            report.put("logits_range", result.range()).put("largest_difference", result.error());
            report.put("bound", result.bound() * result.range()).put("proved", true);
            report.put("verdict", "all weights were trained: the output is the trained model, without a merge");
            if (!result.notes().isEmpty()) {
                report.put("note", String.join("; ", result.notes()));
            }
        }
        ReportOutput.print(spec.commandLine().getOut(), report, json);
        return 0;
    }
}
