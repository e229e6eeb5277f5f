package dev.starforge.cli.command;

import dev.starforge.cli.output.ErrorMessage;
import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.text.ClosestName;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.List;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.UnmatchedArgumentException;

/** Prints errors of commands and returns their exit codes. */
final class CommandErrors {
    private CommandErrors() {}

    /** Prints one line for a wrong command line, and one that points to the help page. */
    static int wrongUse(ParameterException wrong, String[] args) {
        CommandLine command = wrong.getCommandLine();
        command.getErr().println("starforge: " + Escaped.of(message(wrong)));
        command.getErr().println("Try '" + command.getCommandSpec().qualifiedName() + " --help'.");
        return ExitCode.WRONG_USE;
    }

    /** Prints one line for an expected failure, and a stack trace for a defect. */
    static int failed(Exception failure, CommandLine command, CommandLine.ParseResult parsed) {
        PrintWriter err = command.getErr();
        if (failure instanceof ShutdownCleanup.Interrupted) {
            return ExitCode.of(failure); // the shutdown hook prints the message
        }
        if (ExitCode.foreseen(failure)) {
            String message =
                    failure instanceof IOException io ? ErrorMessage.of(io) : String.valueOf(failure.getMessage());
            err.println("starforge: " + Escaped.of(message));
        } else {
            err.println("starforge: internal error; please report it with the lines below");
            failure.printStackTrace(err);
        }
        return ExitCode.of(failure);
    }

    private static String message(ParameterException wrong) {
        if (!(wrong instanceof UnmatchedArgumentException unmatched)) {
            return String.valueOf(wrong.getMessage());
        }
        CommandSpec command = wrong.getCommandLine().getCommandSpec();
        String given = unmatched.getUnmatched().getFirst();
        if (unmatched.isUnknownOption()) {
            List<String> options = command.options().stream()
                    .flatMap(option -> Stream.of(option.names()))
                    .toList();
            String name = given.startsWith("--") ? given.replaceAll("=.*", "") : given;
            return "unknown option '" + given + "'" + suggestion(name, options);
        }
        return command.parent() == null ? unknownCommand(given, command) : "unexpected argument '" + given + "'";
    }

    /** The message for a name that is not a command of {@code root}. */
    static String unknownCommand(String name, CommandSpec root) {
        return "unknown command '" + name + "'"
                + suggestion(name, List.copyOf(root.subcommands().keySet()));
    }

    private static String suggestion(String name, List<String> known) {
        return ClosestName.name(name, known)
                .map(nearest -> "; did you mean '" + nearest + "'?")
                .orElse("");
    }
}
