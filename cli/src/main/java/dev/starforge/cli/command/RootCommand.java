package dev.starforge.cli.command;

import dev.starforge.cli.process.ExitCode;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.UsageMessageSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/** {@code starforge COMMAND ...}. */
@Command(
        name = "starforge",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        synopsisSubcommandLabel = "COMMAND",
        description = "Tune and serve code models on your own repositories.",
        exitCodeListHeading = "%nExit codes:%n",
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge tune                  # tune a model on this repository",
            "  starforge run                   # try the tuned model at a prompt",
            "  starforge serve                 # serve it to editors and OpenAI clients",
            "  starforge pull bigcode/starcoder2-3b",
            "  starforge tune --model bigcode/starcoder2-3b",
            "",
            "Run 'starforge COMMAND --help' for the options of a command.",
        })
public final class RootCommand implements Runnable {
    /** The commands in the order of the help page. */
    private static final Map<String, List<Class<?>>> GROUPS = groups();

    @Spec
    private CommandSpec spec;

    private static Map<String, List<Class<?>>> groups() {
        Map<String, List<Class<?>>> groups = new LinkedHashMap<>();
        groups.put("Start here", List.of(TuneCommand.class, RunCommand.class, ServeCommand.class, HelpCommand.class));
        groups.put(
                "Data and training",
                List.of(
                        DatasetCommand.class,
                        DoctorCommand.class,
                        TrainCommand.class,
                        EvalCommand.class,
                        MergeCommand.class));
        groups.put(
                "Models",
                List.of(
                        PullCommand.class,
                        ListCommand.class,
                        RmCommand.class,
                        InspectCommand.class,
                        GenerateCommand.class,
                        QuantizeCommand.class,
                        ExportCommand.class));
        groups.put("Serving", List.of(WorkerCommand.class, PoolCommand.class));
        groups.put(
                "Checks",
                List.of(
                        DevicesCommand.class,
                        SelftestCommand.class,
                        BenchCommand.class,
                        VerifyCommand.class,
                        LogitsCommand.class));
        groups.put("Program", List.of(BundleCommand.class, CompletionCommand.class, VersionCommand.class));
        return groups;
    }

    public static CommandLine commandLine() {
        CommandLine starforge = new CommandLine(new RootCommand());
        GROUPS.values().forEach(commands -> commands.forEach(starforge::addSubcommand));
        UsageMessageSpec usage = starforge.getCommandSpec().usageMessage();
        usage.exitCodeList(ExitCode.table());
        starforge.getHelpSectionMap().remove(UsageMessageSpec.SECTION_KEY_COMMAND_LIST_HEADING);
        starforge.getHelpSectionMap().put(UsageMessageSpec.SECTION_KEY_COMMAND_LIST, RootCommand::commandList);
        return starforge
                .registerConverter(Path.class, RootCommand::path)
                .registerConverter(URI.class, RootCommand::uri)
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setUsageHelpAutoWidth(true)
                .setHelpFactory(HelpPage::new)
                .setExpandAtFiles(false)
                .setParameterExceptionHandler(CommandErrors::wrongUse)
                .setExecutionExceptionHandler(CommandErrors::failed);
    }

    private static Path path(String text) {
        try {
            return Path.of(text);
        } catch (InvalidPathException wrong) {
            throw new TypeConversionException("expected a path, got '" + text + "': " + wrong.getReason());
        }
    }

    private static URI uri(String text) {
        try {
            return new URI(text);
        } catch (URISyntaxException wrong) {
            throw new TypeConversionException("expected a URL, got '" + text + "': " + wrong.getReason());
        }
    }

    private static String commandList(Help help) {
        StringBuilder list = new StringBuilder();
        GROUPS.forEach((group, commands) -> {
            list.append(String.format("%n%s:%n", group));
            for (Class<?> command : commands) {
                Command annotation = command.getAnnotation(Command.class);
                list.append("  ")
                        .append(help.colorScheme().commandText(String.format("%-11s", annotation.name())))
                        .append(String.format(" %s%n", annotation.description()[0]));
            }
        });
        return list.toString();
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "missing command");
    }

    static final class Version implements CommandLine.IVersionProvider {
        @Override
        public String[] getVersion() {
            String version = RootCommand.class.getModule().getDescriptor() == null
                    ? "development"
                    : RootCommand.class.getModule().getDescriptor().rawVersion().orElse("development");
            return new String[] {"starforge " + version + " (Java " + Runtime.version() + ")"};
        }
    }
}
