package dev.starforge.cli.command;

import dev.starforge.cli.process.ExitCode;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

@Command(
        name = "help",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        description = {"Show the help page of a command.", ""},
        footerHeading = "%nExamples:%n",
        footer = {"  starforge help", "  starforge help tune"})
final class HelpCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "COMMAND", arity = "0..1", description = "Command to describe. Default: all commands.")
    private @Nullable String command;

    @Override
    public Integer call() {
        CommandLine root = spec.root().commandLine();
        CommandLine described = command == null ? root : root.getSubcommands().get(command);
        if (described == null) {
            throw new ParameterException(root, CommandErrors.unknownCommand(String.valueOf(command), spec.root()));
        }
        described.usage(spec.commandLine().getOut());
        return ExitCode.DONE;
    }
}
