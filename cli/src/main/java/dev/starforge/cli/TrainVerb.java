package dev.starforge.cli;

import dev.starforge.data.Tokenizer;
import dev.starforge.model.ModelFiles;
import dev.starforge.model.ModelSpec;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Selection;
import dev.starforge.train.Adaptation;
import dev.starforge.train.Checkpoints;
import dev.starforge.train.LimitedDevice;
import dev.starforge.train.MachineFacts;
import dev.starforge.train.RunConfig;
import dev.starforge.train.Scratch;
import dev.starforge.train.TrainRun;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

@Command(
        name = "train",
        mixinStandardHelpOptions = true,
        versionProvider = Main.Version.class,
        sortOptions = false,
        description = {
            "Trains an adapter for a model, a whole model, or a new one, on a dataset.",
            "",
            "The run's folder gets checkpoints, metrics.jsonl, summary.json and report.html. Ctrl-C ends the step, saves and",
            "exits with 130; --resume goes on from there with the losses an uninterrupted run would have had.",
            "",
            "An adapter's base is kept in NF4 unless quantization.load_in_4bit is false; a GGUF file that is quantized stays as",
            "it is.",
            "",
        },
        exitCodeListHeading = "%nExit codes:%n",
        exitCodeList = {
            "0:done, or stopped early because the validation loss no longer fell",
            "1:the run failed; the last line says why and where the last good state is",
            "2:the command line or the config is wrong",
            "130:interrupted and saved",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge train --config train.yaml --dataset DATA --output RUN",
            "  starforge train --set model.pretrained_model=MODEL --sequences token_sequences.json --epochs 1",
            "  starforge train --output RUN --resume",
            "  starforge train --config train.yaml --print-config",
        })
final class TrainVerb implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private ConfigFlags flags;

    @Option(names = "--resume", description = "Go on from the newest complete checkpoint of the output folder.")
    private boolean resume;

    @Option(names = "--print-config", description = "Print the effective settings and do nothing.")
    private boolean printConfig;

    @Option(names = "--verbose", description = "Also say which operations run as their definitions.")
    private boolean verbose;

    @Option(names = "--json", description = "One JSON object a line, for machines.")
    private boolean json;

    @Override
    public Integer call() {
        PrintWriter out = spec.commandLine().getOut();
        RunConfig config = settings();
        Selection selection = Selection.choose(config.device());
        try (Device opened = selection
                .backend()
                .open(new DeviceOptions(config.deviceIndex(), config.threads(), DeviceFlags.kernelCache()))) {
            Device device = config.memoryLimit() > 0 ? new LimitedDevice(opened, config.memoryLimit()) : opened;
            MachineFacts machine = MachineFacts.of(
                    selection.backend().name(),
                    selection.backend().probe().found().get(config.deviceIndex()));
            boolean scratch = config.model().equals(Scratch.NAME);
            if (printConfig) {
                Path model = scratch ? Path.of(Scratch.NAME) : ModelPlace.find(config.model());
                out.print(adapt(config, machine, model, opened).config().yaml());
                out.flush();
                return 0;
            }
            TrainRun.claim(config, resume);
            try {
                Path model = scratch ? Scratch.prepare(config, device) : ModelPlace.find(config.model());
                Adaptation adapted = adapt(config, machine, model, opened);
                return run(adapted, model, device, new Progress(out, terminal(), json, config.loggingSteps()));
            } finally {
                TrainRun.settle(config);
            }
        }
    }

    /** What a run was fitted to when it began holds for it to the end. */
    private Adaptation adapt(RunConfig config, MachineFacts machine, Path model, Device like) {
        Optional<ModelSpec> blueprint = blueprint(model);
        return continues(config)
                ? Adaptation.fixed(config, machine, blueprint, like)
                : Adaptation.of(config, machine, blueprint, like);
    }

    /** With --resume and no file, those of the run; with a file, what was fitted to the machine is still the run's. */
    private RunConfig settings() {
        RunConfig config = flags.read(RunConfig.defaults());
        if (!continues(config)) {
            return config;
        }
        RunConfig begun = RunConfig.read(config.output().resolve("config.yaml"));
        return flags.read(begun, file -> file.fittedAs(begun));
    }

    private boolean continues(RunConfig config) {
        return resume && Files.isRegularFile(config.output().resolve("config.yaml"));
    }

    private static Optional<ModelSpec> blueprint(Path model) {
        if (!Files.isRegularFile(model) && !Files.isRegularFile(model.resolve("config.json"))) {
            return Optional.empty();
        }
        try (ModelFiles files = ModelFiles.open(model)) {
            return Optional.of(files.spec());
        }
    }

    private static boolean terminal() {
        return System.console() != null && System.console().isTerminal();
    }

    private int run(Adaptation adapted, Path model, Device device, Progress progress) {
        adapted.rows()
                .forEach(row -> progress.note(
                        row.configured().equals(row.effective())
                                ? row.key() + ": " + row.effective() + " (" + row.why() + ")"
                                : row.key() + ": " + row.configured() + " -> " + row.effective() + " (" + row.why()
                                        + ")"));
        Optional<Tokenizer> tokenizer = Tokenizers.find(model);
        TrainRun.Setup setup = new TrainRun.Setup(
                adapted.config(),
                model,
                tokenizer,
                device,
                adapted.precisionOfRun(),
                adapted.fallback(verbose ? progress::note : line -> {}),
                adapted.budget(),
                resume,
                Checkpoints.REAL,
                System::nanoTime,
                progress);
        CountDownLatch over = new CountDownLatch(1);
        Thread hook = new Thread(() -> {}, "unused");
        try (TrainRun run = new TrainRun(setup)) {
            progress.note(run.describe());
            hook = Thread.ofPlatform().unstarted(() -> {
                run.stop();
                try {
                    over.await();
                } catch (InterruptedException ended) {
                    Thread.currentThread().interrupt();
                }
            });
            Runtime.getRuntime().addShutdownHook(hook);
            TrainRun.End end = run.run();
            progress.note(
                    switch (end) {
                        case FINISHED -> "done: " + adapted.config().output().resolve("report.html");
                        case STOPPED_EARLY ->
                            "stopped early: the validation loss no longer falls; "
                                    + adapted.config().output().resolve("report.html");
                        case INTERRUPTED -> "interrupted after step " + run.step() + "; --resume goes on";
                    });
            return end == TrainRun.End.INTERRUPTED ? 130 : 0;
        } finally {
            over.countDown();
            remove(hook);
        }
    }

    /** While the program is being interrupted the hook is running, and stays. */
    private static void remove(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException ending) {
            return;
        }
    }
}
