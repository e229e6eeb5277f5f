package dev.starforge.cli.command;

import dev.starforge.cli.model.Environment;
import dev.starforge.cli.model.PretrainedModels;
import dev.starforge.cli.options.DeviceFlags;
import dev.starforge.cli.options.TrainConfigFlags;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.output.Terminal;
import dev.starforge.data.dataset.RepositoryFacts;
import dev.starforge.data.dataset.config.DatasetKeys;
import dev.starforge.tensor.device.Device;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.DeviceOptions;
import dev.starforge.tensor.device.Probe;
import dev.starforge.tensor.device.Selection;
import dev.starforge.text.ErrorMessage;
import dev.starforge.text.FileException;
import dev.starforge.text.config.ConfigException;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.Durations;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.RunConfig;
import dev.starforge.train.plan.MachineFacts;
import dev.starforge.train.plan.Preflight;
import dev.starforge.train.plan.Preflight.Level;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "doctor",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Check settings, model, data and memory before training.",
            "",
            "Checks settings, device, data, model, memory, disk space and the expected training time. The default base is"
                    + " nano, the built-in model; model.pretrained_model selects another.",
            "",
        },
        exitCodeListHeading = "%nExit codes:%n",
        exitCodeList = {
            "0:ready",
            "1:ready, with warnings",
            "2:not ready",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge doctor --config train.yaml",
            "  starforge doctor --config train.yaml --dataset DATA --json",
            "  starforge doctor --repo . --set model.pretrained_model=scratch"
        })
final class DoctorCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private TrainConfigFlags flags;

    @Option(names = "--repo", paramLabel = "DIR", description = "Git repository to check as the source of a dataset.")
    private Path repository;

    @Option(names = "--resume", description = "Check whether the run in output.output_dir can be resumed.")
    private boolean resume;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() {
        RunConfig config;
        try {
            config = flags.read(RunConfig.defaults());
        } catch (ConfigException wrong) {
            return report(
                    Level.NOT_READY,
                    List.of(new Preflight.Finding(Level.NOT_READY, "settings", String.valueOf(wrong.getMessage()))));
        }
        Selection selection;
        Probe.DetectedDevice found;
        try {
            selection = Selection.choose(config.device());
            found = selection.backend().probe().devices().get(config.deviceIndex());
        } catch (DeviceException | IndexOutOfBoundsException missing) {
            return report(
                    Level.NOT_READY,
                    List.of(new Preflight.Finding(Level.NOT_READY, "device", String.valueOf(missing.getMessage()))));
        }
        try (Device device = selection
                .backend()
                .open(new DeviceOptions(config.deviceIndex(), config.threads(), DeviceFlags.kernelCache()))) {
            List<Preflight.Finding> findings = new ArrayList<>();
            findings.add(ready(
                    "versions",
                    new RootCommand.Version().getVersion()[0] + ", " + System.getProperty("os.name") + " "
                            + System.getProperty("os.version") + " " + System.getProperty("os.arch")));
            findings.add(ready("settings", "valid"));
            findings.add(ready(
                    "device",
                    selection.backend().name() + ": " + found.name() + ", " + found.detail() + " (" + selection.reason()
                            + ")"));
            Environment.system().unheeded().forEach(note -> findings.add(ready("variables", note)));
            if (repository != null) {
                findings.add(repository(config));
            }
            Preflight preflight = Preflight.of(new Preflight.Setup(
                    config,
                    MachineFacts.of(selection.backend().name(), found),
                    device,
                    resume,
                    new PretrainedModels(),
                    Checkpoints.REAL));
            preflight.time(System::nanoTime);
            findings.addAll(preflight.findings());
            Level worst = findings.stream()
                    .map(Preflight.Finding::level)
                    .max(Enum::compareTo)
                    .orElseThrow();
            return report(worst, findings);
        }
    }

    private static Preflight.Finding ready(String subject, String text) {
        return new Preflight.Finding(Level.READY, subject, text);
    }

    private Preflight.Finding repository(RunConfig config) {
        try {
            RepositoryFacts facts = RepositoryFacts.of(repository, config.get(DatasetKeys.SKIP_MISSING));
            String languages = facts.lines().entrySet().stream()
                    .sorted(Map.Entry.<String, Long>comparingByValue().reversed())
                    .limit(4)
                    .map(entry -> entry.getKey() + " " + entry.getValue())
                    .collect(Collectors.joining(", "));
            return new Preflight.Finding(
                    facts.allLines() == 0 ? Level.WARNING : Level.READY,
                    "repository",
                    repository + ": " + facts.commits() + " commits, " + facts.files() + " files of code, "
                            + facts.allLines() + " lines" + (languages.isEmpty() ? "" : " (" + languages + ")")
                            + ", head " + facts.head() + "; a dataset takes about "
                            + Durations.text(facts.work().seconds()) + " and "
                            + (facts.work().bytes() >> 20) + " MiB");
        } catch (FileException unusable) {
            return new Preflight.Finding(Level.NOT_READY, "repository", ErrorMessage.of(unusable));
        }
    }

    private int report(Level level, List<Preflight.Finding> findings) {
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            ObjectNode root = Jackson.object();
            root.put("ready", level.name().toLowerCase(Locale.ROOT));
            ArrayNode list = root.putArray("findings");
            findings.forEach(finding -> list.addObject()
                    .put("level", finding.level().name().toLowerCase(Locale.ROOT))
                    .put("subject", finding.subject())
                    .put("text", finding.text()));
            ReportOutput.json(out, root);
        } else {
            for (Preflight.Finding finding : findings) {
                String label = String.format("%-8s %-10s ", sign(finding.level()), finding.subject());
                Terminal.wrap(label, finding.text(), Terminal.textWidth()).forEach(out::println);
            }
            out.println(
                    switch (level) {
                        case READY -> "ready";
                        case WARNING -> "ready, with warnings";
                        case NOT_READY -> "not ready";
                    });
            out.flush();
        }
        return level.ordinal();
    }

    private static String sign(Level level) {
        return switch (level) {
            case READY -> "ok";
            case WARNING -> "warning";
            case NOT_READY -> "FAILS";
        };
    }
}
