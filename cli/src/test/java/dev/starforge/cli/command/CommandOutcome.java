package dev.starforge.cli.command;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import picocli.CommandLine;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Exit code and output of a command that a test runs in its own JVM. */
record CommandOutcome(int code, String out, String err) {
    static CommandOutcome run(String... args) {
        return run(RootCommand.commandLine(), args);
    }

    static CommandOutcome run(List<String> args) {
        return run(args.toArray(String[]::new));
    }

    static CommandOutcome run(CommandLine command, String... args) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int code = command.setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err))
                .execute(args);
        return new CommandOutcome(code, out.toString(), err.toString());
    }

    JsonNode json() {
        return new JsonMapper().readTree(out);
    }
}
