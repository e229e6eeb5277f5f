package dev.starforge.cli.command;

import dev.starforge.cli.model.Environment;
import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "rm",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Remove models from the local store.",
            "",
            "Removes models from the store; see `starforge list`. Files outside the store, such as the HF cache, are"
                    + " not changed.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {"  starforge rm bigcode/starcoder2-3b"})
final class RmCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "NAME", arity = "1..*", description = "Names of models in the store.")
    private List<String> names;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() throws IOException {
        ObjectNode report = Jackson.object();
        ArrayNode removed = report.putArray("removed");
        long bytes = 0;
        for (String name : names) {
            bytes += Environment.system().store().remove(name);
            removed.add(name);
            if (!json) {
                spec.commandLine().getOut().println("removed " + Escaped.of(name));
            }
        }
        if (json) {
            ReportOutput.json(spec.commandLine().getOut(), report.put("bytes", bytes));
        }
        spec.commandLine().getOut().flush();
        return ExitCode.DONE;
    }
}
