package dev.starforge.cli.command;

import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.text.ClosestName;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.UnmatchedArgumentException;

/** {@code starforge VERB ...}. */
@Command(
        name = "starforge",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        description = "Turns a git repository into a code model tuned on it.",
        exitCodeListHeading = "%nExit codes:%n",
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge tune",
            "  starforge run",
            "  starforge devices",
            "  starforge dataset --repo . --out data",
            "  starforge inspect MODEL",
            "  starforge generate MODEL --prompt 'def fibonacci(n):'",
            "  starforge VERB --help",
        })
public final class RootCommand implements Runnable {
    private static final List<Class<?>> VERBS = List.of(
            BenchCommand.class,
            BundleCommand.class,
            CompletionCommand.class,
            DatasetCommand.class,
            DevicesCommand.class,
            DoctorCommand.class,
            EvalCommand.class,
            ExportCommand.class,
            GenerateCommand.class,
            InspectCommand.class,
            ListCommand.class,
            LogitsCommand.class,
            MergeCommand.class,
            PoolCommand.class,
            PullCommand.class,
            QuantizeCommand.class,
            RehearseCommand.class,
            RmCommand.class,
            RunCommand.class,
            SelftestCommand.class,
            ServeCommand.class,
            TrainCommand.class,
            TuneCommand.class,
            VerifyCommand.class,
            WorkerCommand.class);

    @Spec
    private CommandSpec spec;

    /**
     * With all verbs, or only with the one that the arguments begin with: to read the annotations of all is a third of a
     * start.
     */
    public static CommandLine commandLine(String... args) {
        CommandLine starforge = new CommandLine(new RootCommand());
        starforge.getCommandSpec().usageMessage().exitCodeList(ExitCode.table());
        List<Class<?>> named = VERBS.stream()
                .filter(verb -> args.length > 0 && verb.getSimpleName().equalsIgnoreCase(args[0] + "Command"))
                .toList();
        for (Class<?> verb : named.isEmpty() ? VERBS : named) {
            starforge.addSubcommand(verb);
        }
        return starforge
                .registerConverter(Path.class, Path::of)
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setUsageHelpAutoWidth(true)
                .setExpandAtFiles(false)
                .setParameterExceptionHandler(RootCommand::correct)
                .setExecutionExceptionHandler(RootCommand::explain);
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "a verb is missing");
    }

    /** One line on what is wrong, and where the rest can be read. */
    private static int correct(ParameterException wrong, String[] args) {
        CommandLine command = wrong.getCommandLine();
        command.getErr().println(Escaped.of(message(wrong)));
        command.getErr().println("Try '" + command.getCommandSpec().qualifiedName() + " --help'.");
        return ExitCode.WRONG_USE;
    }

    private static String message(ParameterException wrong) {
        if (!(wrong instanceof UnmatchedArgumentException unmatched)) {
            return String.valueOf(wrong.getMessage());
        }
        CommandSpec command = wrong.getCommandLine().getCommandSpec();
        String given = unmatched.getUnmatched().getFirst();
        boolean option = unmatched.isUnknownOption();
        boolean verb = !option && command.parent() == null;
        String message = verb ? "there is no verb " + given : option ? "there is no option " + given : "";
        if (message.isEmpty()) {
            return "there is no place for the argument '" + given + "'";
        }
        List<String> known = verb
                ? command.subcommands().entrySet().stream()
                        .filter(each ->
                                !each.getValue().getCommandSpec().usageMessage().hidden())
                        .map(Map.Entry::getKey)
                        .toList()
                : command.options().stream()
                        .flatMap(each -> Stream.of(each.names()))
                        .toList();
        String name = given.startsWith("--") ? given.replaceAll("=.*", "") : given;
        return message
                + ClosestName.name(name, known)
                        .map(nearest -> "; did you mean " + nearest + "?")
                        .orElse(verb ? "; expected one of " + String.join(", ", known) : "");
    }

    /** The system says little more than the name of a file; the kind of error says the rest. */
    private static String message(IOException failure) {
        return switch (failure) {
            case NoSuchFileException none -> none.getFile() + ": there is no such file or folder";
            case AccessDeniedException denied -> denied.getFile() + ": no permission";
            case FileAlreadyExistsException there -> there.getFile() + ": is there already";
            default -> failure.toString();
        };
    }

    /** What we foresaw is one line; anything else is our defect and shows where it happened. */
    private static int explain(Exception failure, CommandLine command, CommandLine.ParseResult parsed) {
        PrintWriter err = command.getErr();
        if (failure instanceof ShutdownCleanup.Interrupted) {
            return ExitCode.of(failure); // whoever interrupted has been told
        }
        if (ExitCode.foreseen(failure)) {
            err.println("starforge: "
                    + Escaped.of(
                            failure instanceof IOException file
                                    ? message(file)
                                    : String.valueOf(failure.getMessage())));
        } else {
            failure.printStackTrace(err);
        }
        return ExitCode.of(failure);
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
