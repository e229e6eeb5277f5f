package dev.starforge.cli.command;

import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.text.ClosestName;
import dev.starforge.text.ErrorMessage;
import java.io.PrintWriter;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.UnmatchedArgumentException;

/** Prints errors of commands and returns their exit codes. */
final class CommandErrors {
    private static final Pattern NUMBER =
            Pattern.compile("Invalid value for option '(--[\\w-]+)'.*: '(.*)' is not an? (int|long|float|double)");

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
            err.println("starforge: " + Escaped.of(ErrorMessage.of(failure)));
        } else {
            err.println("starforge: internal error; please report it with the lines below");
            failure.printStackTrace(err);
        }
        return ExitCode.of(failure);
    }

    private static String message(ParameterException wrong) {
        if (!(wrong instanceof UnmatchedArgumentException unmatched)) {
            return withoutTypes(String.valueOf(wrong.getMessage()));
        }
        CommandSpec command = wrong.getCommandLine().getCommandSpec();
        String given = unmatched.getUnmatched().getFirst();
        if (unmatched.isUnknownOption()) {
            List<String> options = command.options().stream()
                    .flatMap(option -> Stream.of(option.names()))
                    .toList();
            String name = given.startsWith("--") ? given.replaceAll("=.*", "") : given;
            return "unknown option '" + given + "'"
                    + convention(name, command).orElseGet(() -> suggestion(name, options));
        }
        return command.parent() == null ? unknownCommand(given, command) : "unexpected argument '" + given + "'";
    }

    /** Replaces picocli's sentence on a number, which has the name of a Java type. */
    private static String withoutTypes(String message) {
        Matcher number = NUMBER.matcher(message);
        if (!number.matches()) {
            return message;
        }
        String expected = number.group(3).matches("int|long") ? "a whole number" : "a number";
        return number.group(1) + ": expected " + expected + ", got " + number.group(2);
    }

    /** What the options of similar programs are called here. */
    private static Optional<String> convention(String name, CommandSpec command) {
        boolean takesModel = command.positionalParameters().stream()
                .anyMatch(parameter -> parameter.paramLabel().equals("MODEL"));
        if (takesModel && List.of("--model", "-m").contains(name)) {
            return Optional.of("; pass the model as an argument: " + command.qualifiedName() + " MODEL");
        }
        return List.of("--output", "-o", "--to").contains(name) && command.findOption("--out") != null
                ? Optional.of("; did you mean '--out'?")
                : Optional.empty();
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
