package dev.starforge.cli.command;

import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.model.PretrainedModels;
import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.TrainConfigFlags;
import dev.starforge.cli.output.Terminal;
import dev.starforge.cli.process.GracefulStop;
import dev.starforge.cli.train.LiveRun;
import dev.starforge.cli.train.PhaseLog;
import dev.starforge.cli.train.ProfiledRun;
import dev.starforge.cli.train.RunProgress;
import dev.starforge.model.ModelException;
import dev.starforge.model.load.ModelFiles;
import dev.starforge.model.load.ModelSpec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.text.report.ShellQuoting;
import dev.starforge.train.KnownModels;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.checkpoint.RunEvents;
import dev.starforge.train.checkpoint.RunFolder;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.config.StarterConfig;
import dev.starforge.train.plan.Adaptation;
import dev.starforge.train.plan.LimitedDevice;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.plan.Preflight;
import dev.starforge.train.plan.ProfiledDevice;
import dev.starforge.train.run.TrainRun;
import dev.starforge.train.weights.ScratchModel;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

@Command(
        name = "train",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Train an adapter, or all weights of a model.",
            "",
            "Writes checkpoints, metrics.jsonl, summary.json and report.html to the output folder. Ctrl-C finishes the"
                    + " step, saves a checkpoint and exits with 130; --resume continues with the same losses as an"
                    + " uninterrupted run.",
            "",
            "The default base is nano, the built-in model; model.pretrained_model selects another.",
            "",
            "The base of an adapter is quantized to NF4 unless quantization.load_in_4bit is false. A quantized GGUF"
                    + " base stays as it is, unless fewer bits are asked for.",
            "",
        },
        exitCodeListHeading = "%nExit codes:%n",
        exitCodeList = {
            "0:done, or stopped early because the validation loss stopped falling",
            "1:failed; the last line has the reason and the last checkpoint",
            "2:invalid command line or configuration",
            "130:interrupted, and a checkpoint was saved",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge train --config train.yaml --dataset DATA --out RUN",
            "  starforge train --set model.pretrained_model=MODEL --dataset DATA --epochs 1",
            "  starforge train --out RUN --resume",
            "  starforge train --config train.yaml --ui 8081  # live at http://127.0.0.1:8081",
            "  starforge train --config train.yaml --print-config",
            "  starforge train --init                         # writes train.yaml",
        })
final class TrainCommand implements Callable<Integer> {
    private static final int INTERRUPTED = 130;

    @Spec
    private CommandSpec spec;

    @Mixin
    private TrainConfigFlags flags;

    @Option(names = "--resume", description = "Resume from the newest complete checkpoint in the output folder.")
    private boolean resume;

    @Option(names = "--print-config", description = "Print the effective settings and exit.")
    private boolean printConfig;

    @Option(
            names = "--init",
            arity = "0..1",
            fallbackValue = "train.yaml",
            paramLabel = "FILE",
            description = "Write a commented configuration file and exit. Default: ${FALLBACK-VALUE}.")
    private Path init;

    @Option(
            names = "--verbose",
            description = "Also print the duration of each phase and the operations without a native kernel.")
    private boolean verbose;

    @Option(
            names = "--profile",
            description =
                    "Time each operation of all steps after the fourth, and print a table at the end. Slows training"
                            + " down.")
    private boolean profile;

    @Option(names = "--json", description = "Print one JSON object per line.")
    private boolean json;

    @Option(
            names = "--ui",
            paramLabel = "PORT",
            description = "Show the run on a web page at http://127.0.0.1:PORT; 0 chooses a free port and prints it.")
    private Integer port;

    @Override
    public Integer call() throws IOException {
        PrintWriter out = spec.commandLine().getOut();
        checkPort();
        if (init != null) {
            return writeStarter(out);
        }
        RunConfig config = settings();
        Selection selection = Selection.choose(config.device());
        try (Device opened = selection
                .backend()
                .open(new DeviceOptions(config.deviceIndex(), config.threads(), DeviceFlags.kernelCache()))) {
            Device device = config.memoryLimit() > 0 ? new LimitedDevice(opened, config.memoryLimit()) : opened;
            MachineFacts machine = MachineFacts.of(
                    selection.backend().name(),
                    selection.backend().probe().devices().get(config.deviceIndex()));
            if (printConfig) {
                return print(out, config, machine, opened);
            }
            Preflight preflight = Preflight.of(
                    new Preflight.Setup(config, machine, opened, resume, new PretrainedModels(), Checkpoints.REAL));
            preflight.require();
            RunProgress progress = new RunProgress(out, Terminal.isTerminal(), json, config.loggingSteps());
            if (profile) {
                return profile(config, preflight, device, progress);
            }
            if (port == null) {
                return train(config, preflight, device, progress, Optional.empty());
            }
            try (LiveRun watched = watched(progress, config)) {
                return train(config, preflight, device, watched, Optional.of(watched));
            }
        }
    }

    private int profile(RunConfig config, Preflight preflight, Device device, RunProgress progress) {
        ProfiledDevice profiled = new ProfiledDevice(device, System::nanoTime);
        ProfiledRun run = new ProfiledRun(progress, profiled);
        int code = train(config, preflight, profiled, run, Optional.empty());
        run.profile(preflight.adaptation().precisionOfRun().compute())
                .ifPresentOrElse(progress::profile, () -> progress.note("--profile: the run was too short to measure"));
        return code;
    }

    private LiveRun watched(RunProgress progress, RunConfig config) {
        try {
            return LiveRun.start(port, progress, System::nanoTime, config.model(), config.output());
        } catch (IOException taken) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--ui: " + taken.getMessage() + "; choose another port, or 0 for a free one",
                    taken);
        }
    }

    private void checkPort() {
        if (port != null && (port < 0 || port > 65535 || init != null || printConfig || profile)) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--ui: expected a port from 0 to 65535, without --init, --print-config or --profile; got " + port);
        }
    }

    private int writeStarter(PrintWriter out) throws IOException {
        try {
            Files.writeString(init, StarterConfig.text(), StandardOpenOption.CREATE_NEW);
        } catch (FileAlreadyExistsException there) {
            throw new ParameterException(
                    spec.commandLine(), "--init " + init + " already exists; choose another name", there);
        }
        out.println("wrote " + init + "; check model.pretrained_model and data.path in it, then run");
        out.println("  starforge dataset --repo . --config " + ShellQuoting.quoted(init));
        out.println("  starforge doctor --config " + ShellQuoting.quoted(init));
        out.println("  starforge train --config " + ShellQuoting.quoted(init));
        out.flush();
        return 0;
    }

    /** Prints the effective settings, adapted to the machine if the model is known. */
    private int print(PrintWriter out, RunConfig config, MachineFacts machine, Device like) {
        Optional<ModelSpec> blueprint;
        try {
            blueprint = config.model().equals(ScratchModel.NAME)
                    ? Optional.of(ScratchModel.blueprint(config))
                    : blueprint(ModelLocator.find(config.model()));
        } catch (ModelException missing) {
            blueprint = KnownModels.find(config.model());
            out.println("# " + config.model() + " is not on this machine"
                    + (blueprint.isPresent()
                            ? ""
                            : ": batch size and context are not adapted to the memory of this machine"));
        }
        out.print((continues(config)
                        ? Adaptation.fixed(config, machine, blueprint, like)
                        : Adaptation.of(config, machine, blueprint, like))
                .config()
                .yaml());
        out.flush();
        return 0;
    }

    /** With --resume, the settings of the run; --config overrides those that were not adapted to the machine. */
    private RunConfig settings() {
        RunConfig config = flags.read(RunConfig.defaults());
        if (!continues(config)) {
            return config;
        }
        RunConfig started = RunConfig.read(config.output().resolve("config.yaml"));
        return flags.read(started, file -> file.fittedAs(started));
    }

    private boolean continues(RunConfig config) {
        return resume && Files.isRegularFile(config.output().resolve("config.yaml"));
    }

    private static Optional<ModelSpec> blueprint(Path model) {
        try (ModelFiles files = ModelFiles.open(model)) {
            return Optional.of(files.spec());
        }
    }

    /** An interrupt before the first step leaves no files. */
    private int train(
            RunConfig config, Preflight preflight, Device device, RunEvents progress, Optional<LiveRun> watched) {
        try (GracefulStop interrupt = new GracefulStop()) {
            try (RunFolder folder = RunFolder.claim(config, resume)) {
                folder.notice().ifPresent(progress::note);
                return train(config, preflight, device, progress, watched, folder, interrupt);
            } catch (RuntimeException failure) {
                if (!interrupt.cameEarly()) {
                    throw failure;
                }
                progress.note("interrupted before the first step; nothing was written");
                return INTERRUPTED;
            }
        }
    }

    private int train(
            RunConfig config,
            Preflight preflight,
            Device device,
            RunEvents progress,
            Optional<LiveRun> watched,
            RunFolder folder,
            GracefulStop interrupt) {
        Optional<PhaseLog> phases = verbose ? Optional.of(new PhaseLog(progress, System::nanoTime)) : Optional.empty();
        RunEvents events = phases.map(RunEvents.class::cast).orElse(progress);
        Adaptation adapted = preflight.adaptation();
        adapted.rows()
                .forEach(row -> progress.note(
                        row.configured().equals(row.effective())
                                ? row.key() + ": " + row.effective() + " (" + row.why() + ")"
                                : row.key() + ": " + row.configured() + " -> " + row.effective() + " (" + row.why()
                                        + ")"));
        TrainRun.Setup setup =
                TrainRun.Setup.of(preflight, device, resume, verbose ? progress::note : line -> {}, events);
        try (TrainRun run = new TrainRun(setup)) {
            folder.finishOverwrite();
            interrupt.onSignal(run::stop);
            progress.note(run.describe());
            if (!run.finishedAdvice().isEmpty()) {
                progress.note(run.finishedAdvice());
            }
            watched.ifPresent(page -> page.begin(run, device.name()));
            TrainRun.End end = run.run();
            phases.ifPresent(PhaseLog::end);
            watched.ifPresent(page -> page.end(run, end));
            report(progress, run, end, config.output());
            return end == TrainRun.End.INTERRUPTED ? INTERRUPTED : 0;
        }
    }

    private static void report(RunEvents progress, TrainRun run, TrainRun.End end, Path output) {
        if (end == TrainRun.End.INTERRUPTED) {
            progress.note(
                    "interrupted after step " + run.step() + ", which is saved; resume with: starforge train --out "
                            + ShellQuoting.quoted(output) + " --resume");
            return;
        }
        progress.note(
                (end == TrainRun.End.FINISHED ? "done: " : "stopped early, since the validation loss stopped falling: ")
                        + output.resolve("report.html"));
        run.nextCommands(end)
                .forEach((what, command) -> progress.note(String.format("  %-14s%s", what + ":", command)));
    }
}
