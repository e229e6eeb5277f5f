package dev.starforge.cli.command;

import dev.starforge.cli.model.DefaultModel;
import dev.starforge.cli.model.EmbeddedModel;
import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.model.PretrainedModels;
import dev.starforge.cli.options.ConfigFileFlags;
import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.DeviceSelectionFlags;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.output.Terminal;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.GrammarProcess;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.cli.train.TuneProgress;
import dev.starforge.cli.train.TuneSummary;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.plan.LimitedDevice;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.tune.Tune;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "tune",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Tune a model on a git repository, evaluate it and package it.",
            "",
            "Creates a dataset, trains an adapter, evaluates it against the base on the newest commits, merges and"
                    + " quantizes. The result is a GGUF file that is ready to serve.",
            "",
            "Run it again to continue an interrupted run, to train on new commits only, to train longer (a larger"
                    + " --minutes or --epochs; what is there is reused), or with other settings.",
            "",
        },
        exitCodeListHeading = "%nExit codes:%n",
        exitCodeList = {
            "0:done, or nothing to do: no new commits, and nothing else is asked for than before",
            "1:a step failed; completed steps are kept",
            "2:invalid command line or setting, or --yes is required",
            "130:interrupted; run the same command again to continue",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge tune                               # this repository, five minutes",
            "  starforge tune --minutes 30 --yes            # continues for 25 minutes",
            "  starforge tune --model models/starcoder2-3b --epochs 1 --device cuda",
        })
final class TuneCommand implements Callable<Integer> {
    private static final double USUAL_MINUTES = 5;

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--repo",
            paramLabel = "PATH",
            defaultValue = ".",
            description = "Work tree or bare repository. Default: the current directory.")
    private Path repository;

    @Option(
            names = "--model",
            paramLabel = "MODEL",
            description = "Base model: a folder, a GGUF file, a model name, or the embedded model nano. Default: the"
                    + " setting model.pretrained_model, or nano.")
    private String model;

    @Option(
            names = "--minutes",
            paramLabel = "N",
            description =
                    "Time for all steps, over all calls for the same commits: after 5 minutes, --minutes 30 trains"
                            + " for 25 more. Training uses the time that other steps leave, newest commits first."
                            + " Default: 5, unless --epochs or --config is given.")
    private Double minutes;

    @Option(names = "--epochs", paramLabel = "N", description = "Number of epochs, without a time limit.")
    private Integer epochs;

    @Mixin
    private ConfigFileFlags settings;

    @Option(
            names = {"--out", "--output"},
            paramLabel = "DIR",
            description = "Output folder. Default: .starforge in the repository.")
    private Path output;

    @Option(
            names = "--device",
            paramLabel = "NAME",
            description =
                    "Device to run on: auto, cpu, cuda, metal or mps. Fails if the requested device is not available."
                            + " Default: auto.")
    private String device;

    @Option(names = "--yes", description = "Do not ask for confirmation of runs longer than ten minutes.")
    private boolean yes;

    @Option(names = "--json", description = "Print one JSON object at the end.")
    private boolean json;

    @Override
    public Integer call() throws IOException {
        if (minutes != null && epochs != null) {
            throw wrong("--minutes and --epochs cannot be combined");
        }
        if (minutes != null && !(minutes > 0)) {
            throw wrong("--minutes: expected more than 0, got " + minutes);
        }
        RunConfig config = config();
        String base = model != null ? model : config.isSet(Keys.MODEL) ? config.model() : EmbeddedModel.NAME;
        Path place = ModelLocator.find(base);
        Path out = output == null ? repository.resolve(DefaultModel.FOLDER).normalize() : output;
        Selection selection = DeviceSelectionFlags.choose(config.device(), spec.commandLine());
        PrintWriter err = spec.commandLine().getErr();
        TuneProgress progress = new TuneProgress(spec.commandLine().getOut(), err, json, yes);
        long began = System.nanoTime();
        Tune.Result result;
        try (ShutdownCleanup interruption = ShutdownCleanup.watch(
                        Duration.ZERO, () -> {}, "interrupted; run the same command again to continue", err);
                Device opened = selection
                        .backend()
                        .open(new DeviceOptions(config.deviceIndex(), config.threads(), DeviceFlags.kernelCache()))) {
            Device limited = config.memoryLimit() > 0 ? new LimitedDevice(opened, config.memoryLimit()) : opened;
            MachineFacts machine = MachineFacts.of(
                    selection.backend().name(),
                    selection.backend().probe().devices().get(config.deviceIndex()));
            result = new Tune(new Tune.Setup(
                            repository,
                            out,
                            config,
                            base,
                            place,
                            length(),
                            new Tune.Place(machine, limited, selection.reason()),
                            new Tune.Helpers(new PretrainedModels(), GrammarProcess::starter, System::nanoTime),
                            progress))
                    .run();
            interruption.finished();
        }
        return report(result, progress, (System.nanoTime() - began) * 1e-9);
    }

    private RunConfig config() {
        List<String> flags = new ArrayList<>();
        if (epochs != null) {
            flags.add(Keys.EPOCHS.path() + "=" + epochs);
        }
        if (device != null) {
            flags.add(Keys.FORCE.path() + "=" + DeviceSelectionFlags.setting(device, spec.commandLine()));
        }
        return settings.flags(settings.file(RunConfig.defaults()), flags);
    }

    private Tune.Length length() {
        boolean set = epochs != null || settings.hasFile();
        OptionalDouble time = minutes != null
                ? OptionalDouble.of(minutes)
                : set ? OptionalDouble.empty() : OptionalDouble.of(USUAL_MINUTES);
        return new Tune.Length(time, minutes != null || set);
    }

    private int report(Tune.Result result, TuneProgress progress, double seconds) {
        PrintWriter out = spec.commandLine().getOut();
        TuneSummary summary = new TuneSummary(result, seconds, Terminal.textWidth());
        if (result.end() == Tune.End.FINISHED) {
            result.model()
                    .ifPresent(file -> Checkpoints.writeAtomically(file.resolveSibling("README.md"), summary.card()));
        }
        if (json) {
            ObjectNode report = summary.json();
            ReportOutput.json(out, report);
        } else {
            out.print(summary.text());
            out.flush();
        }
        return switch (result.end()) {
            case FINISHED, UP_TO_DATE, NOTHING_TO_LEARN -> ExitCode.DONE;
            case DECLINED -> progress.asked() ? ExitCode.DONE : ExitCode.WRONG_USE;
            case INTERRUPTED -> ExitCode.INTERRUPTED;
        };
    }

    private ParameterException wrong(String message) {
        return new ParameterException(spec.commandLine(), message);
    }
}
