package dev.starforge.cli;

import dev.starforge.data.DatasetException;
import dev.starforge.data.TokenizerException;
import dev.starforge.model.ModelException;
import dev.starforge.tensor.TensorException;
import dev.starforge.train.ConfigException;
import dev.starforge.train.TrainException;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.List;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code starforge VERB ...}. */
@Command(
        name = "starforge",
        mixinStandardHelpOptions = true,
        versionProvider = Main.Version.class,
        description = "Turns a git repository into a code model tuned on it, and serves that model.",
        exitCodeListHeading = "%nExit codes:%n",
        exitCodeList = {
            "0:done",
            "1:the work failed; the last line says why",
            "2:the command line or a config is wrong",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge devices",
            "  starforge dataset --repo . --out data",
            "  starforge inspect MODEL",
            "  starforge generate MODEL --prompt 'def fibonacci(n):'",
            "  starforge VERB --help",
        })
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

    @Spec
    private CommandSpec spec;

    private Main() {}

    public static void main(String[] args) {
        System.exit(commandLine(args).execute(args));
    }

    /**
     * With all verbs, or only with the one that the arguments begin with: to read the annotations of all is a third of a
     * start.
     */
    static CommandLine commandLine(String... args) {
        CommandLine starforge = new CommandLine(new Main());
        List<Class<?>> named = VERBS.stream()
                .filter(verb -> args.length > 0 && verb.getSimpleName().equalsIgnoreCase(args[0] + "Verb"))
                .toList();
        (named.isEmpty() ? VERBS : named).forEach(starforge::addSubcommand);
        return starforge
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
