package dev.starforge.cli;

import dev.starforge.data.DatasetException;
import dev.starforge.data.TokenizerException;
import dev.starforge.model.ModelException;
import dev.starforge.tensor.TensorException;
import dev.starforge.train.ConfigException;
import dev.starforge.train.TrainException;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.UsageMessageSpec;
import picocli.CommandLine.ParameterException;

/**
 * {@code starforge VERB ...}.
 *
 * <p>Verbs have their flags as annotations, for each kind of which the JVM makes a class at every start. That takes a tenth
 * of the time in which {@code dataset} reads a short history, so its flags, and those before a verb, are written out.
 */
final class Main implements Runnable {
    private static final List<Class<?>> VERBS = List.of(
            BenchVerb.class,
            DatasetVerb.class,
            DevicesVerb.class,
            DoctorVerb.class,
            EvalVerb.class,
            ExportVerb.class,
            GenerateVerb.class,
            InspectVerb.class,
            LogitsVerb.class,
            MergeVerb.class,
            RehearseVerb.class,
            TrainVerb.class,
            VerifyVerb.class);

    private final CommandSpec spec = command("starforge", this);

    private Main() {
        spec.usageMessage()
                .description("Turns a git repository into a code model tuned on it, and serves that model.")
                .exitCodeListHeading("%nExit codes:%n")
                .exitCodeList(UsageMessageSpec.keyValuesMap(
                        "0:done",
                        "1:the work failed; the last line says why",
                        "2:the command line or a config is wrong"))
                .footerHeading("%nExamples:%n")
                .footer(
                        "  starforge devices",
                        "  starforge dataset --repo . --out data",
                        "  starforge inspect MODEL",
                        "  starforge generate MODEL --prompt 'def fibonacci(n):'",
                        "  starforge VERB --help");
    }

    /** A command with the flags that every command has, after all others. */
    static CommandSpec command(String name, Object command) {
        return CommandSpec.wrapWithoutInspection(command)
                .name(name)
                .versionProvider(new Version())
                .addOption(OptionSpec.builder("-h", "--help")
                        .usageHelp(true)
                        .order(1)
                        .description("Show this help message and exit.")
                        .build())
                .addOption(OptionSpec.builder("-V", "--version")
                        .versionHelp(true)
                        .order(2)
                        .description("Print version information and exit.")
                        .build());
    }

    public static void main(String[] args) {
        System.exit(commandLine(args).execute(args));
    }

    /**
     * With all verbs, or only with the one that the arguments begin with: to read the annotations of all is a third of a
     * start.
     */
    static CommandLine commandLine(String... args) {
        CommandLine starforge = new CommandLine(new Main().spec);
        List<Class<?>> named = VERBS.stream()
                .filter(verb -> args.length > 0 && verb.getSimpleName().equalsIgnoreCase(args[0] + "Verb"))
                .toList();
        for (Class<?> verb : named.isEmpty() ? VERBS : named) {
            starforge.addSubcommand(verb == DatasetVerb.class ? DatasetVerb.command() : verb);
        }
        return starforge
                .registerConverter(Path.class, Path::of)
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setUsageHelpAutoWidth(true)
                .setExpandAtFiles(false)
                .setParameterExceptionHandler(Main::correct)
                .setExecutionExceptionHandler(Main::explain);
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "a verb is missing");
    }

    /** One line on what is wrong, and where the rest can be read. */
    private static int correct(ParameterException wrong, String[] args) {
        CommandLine command = wrong.getCommandLine();
        command.getErr().println(wrong.getMessage());
        command.getErr().println("Try '" + command.getCommandSpec().qualifiedName() + " --help'.");
        return command.getCommandSpec().exitCodeOnInvalidInput();
    }

    /** What we foresaw is one line; anything else is our defect and shows where it happened. */
    private static int explain(Exception failure, CommandLine command, CommandLine.ParseResult parsed) {
        PrintWriter err = command.getErr();
        if (failure instanceof DatasetException
                || failure instanceof ModelException
                || failure instanceof TensorException
                || failure instanceof TokenizerException
                || failure instanceof TrainException) {
            err.println("starforge: " + failure.getMessage());
        } else if (failure instanceof ConfigException) {
            err.println("starforge: " + failure.getMessage());
            return command.getCommandSpec().exitCodeOnInvalidInput();
        } else if (failure instanceof IOException) {
            err.println("starforge: " + failure);
        } else {
            failure.printStackTrace(err);
        }
        return 1;
    }

    static final class Version implements CommandLine.IVersionProvider {
        @Override
        public String[] getVersion() {
            String version = Main.class.getModule().getDescriptor() == null
                    ? "development"
                    : Main.class.getModule().getDescriptor().rawVersion().orElse("development");
            return new String[] {"starforge " + version + " (Java " + Runtime.version() + ")"};
        }
    }
}
