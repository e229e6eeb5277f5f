package dev.starforge.cli.command;

import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.model.Modelfile;
import dev.starforge.cli.options.DeviceSelectionFlags;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.options.OutputPath;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.tensor.device.Device;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.TrainException;
import dev.starforge.train.merge.ModelExport;
import dev.starforge.train.merge.ModelFormat;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "export",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Convert a model to a GGUF file for llama.cpp and Ollama.",
            "",
            "Converts safetensors and tokenizer. The file is read back, and its logits are compared with those of the"
                    + " model; if they differ, no file is written and the exit code is 1. To export a model with an"
                    + " adapter, use `starforge merge`.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge export MODEL --out MODEL.gguf --type f16",
            "  starforge export RUN --out TUNED.gguf      # a run that trained all weights",
            "  starforge export TUNED.gguf --ollama       # writes a Modelfile",
        })
final class ExportCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private DeviceSelectionFlags place;

    @Parameters(
            paramLabel = "MODEL",
            description = "Model: a folder with config.json and safetensors, a name in the HF cache, or a run (best"
                    + " checkpoint).")
    private String model;

    @Option(names = "--out", paramLabel = "FILE", description = "New .gguf file.")
    private Path out;

    @Option(
            names = "--ollama",
            description = "Also write a Modelfile for `ollama create`. If MODEL is a GGUF file, --out is not needed.")
    private boolean ollama;

    @Option(
            names = "--type",
            paramLabel = "TYPE",
            defaultValue = "",
            description = "Type of the matrices: F32, BF16 or F16. Default: the types of the model.")
    private String type;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() throws IOException {
        if (ollama && out == null && type.isEmpty()) {
            return describeForOllama();
        }
        if (out == null) {
            throw new ParameterException(spec.commandLine(), "Missing required option: '--out=FILE'");
        }
        String stored = type.toUpperCase(Locale.ROOT);
        if (!List.of("", "F32", "BF16", "F16").contains(stored)) {
            throw new ParameterException(spec.commandLine(), "--type: expected F32, BF16 or F16, got " + type);
        }
        if (!out.toString().endsWith(".gguf")) {
            throw new ParameterException(spec.commandLine(), "--out " + out + ": expected a .gguf file");
        }
        OutputPath.require("--out", out, spec.commandLine());
        if (ollama) {
            OutputPath.require("--ollama", Modelfile.beside(out), spec.commandLine());
        }
        TunedModel tuned = ModelFlags.describe(
                TunedModel.of(ModelLocator.find(model, ModelFlags.WANTED), Optional.empty(), ModelFlags::base),
                spec.commandLine().getErr());
        Path folder = tuned.model();
        if (tuned.adapter().isPresent()) {
            throw new TrainException(model + " is an adapter; merge it into its base: `starforge merge " + model
                    + " --out " + out + "`");
        }
        if (!Files.isDirectory(folder)) {
            throw new TrainException(folder + " is already a GGUF file; expected a folder with safetensors");
        }
        ObjectNode report = Jackson.object();
        try (ShutdownCleanup _ =
                        ShutdownCleanup.removing(out, spec.commandLine().getErr());
                Device device = place.open(place.choose())) {
            ModelExport.Result result =
                    new ModelExport(folder, stored, Long.MAX_VALUE, device).write(out, ModelFormat.GGUF);
            report.put("model", folder.toString()).put("out", out.toString());
            report.put("logits_range", result.range()).put("largest_difference", result.error());
            report.put("bound", result.bound() * result.range()).put("proved", true);
            if (!result.notes().isEmpty()) {
                report.put("note", String.join("; ", result.notes()));
            }
        }
        if (ollama) {
            report.put("modelfile", Modelfile.write(out).toString());
        }
        ReportOutput.print(spec.commandLine().getOut(), report, json);
        return 0;
    }

    private int describeForOllama() throws IOException {
        Path file = ModelLocator.find(model, ModelFlags.WANTED);
        if (Files.isDirectory(file)) {
            throw new ParameterException(
                    spec.commandLine(), "--ollama: " + model + " is a folder; pass --out NAME.gguf");
        }
        ObjectNode report = Jackson.object();
        report.put("model", file.toString());
        report.put("modelfile", Modelfile.write(file).toString());
        ReportOutput.print(spec.commandLine().getOut(), report, json);
        return 0;
    }
}
