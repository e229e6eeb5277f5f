package dev.starforge.cli.command;

import dev.starforge.cli.hub.ModelStore;
import dev.starforge.cli.model.Environment;
import dev.starforge.cli.output.Escaped;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.text.json.Jackson;
import java.io.PrintWriter;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "list",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "List the models in the local store.",
            "",
            "Models are stored in $STARFORGE_HOME/models, or in ~/.local/share/starforge/models. Other commands accept"
                    + " their names.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {"  starforge list", "  starforge list --json"})
final class ListCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() {
        ModelStore store = Environment.system().store();
        List<ModelStore.Kept> kept = store.list();
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            ObjectNode report = Jackson.object().put("store", store.root().toString());
            ArrayNode models = report.putArray("models");
            kept.forEach(model -> models.addObject()
                    .put("name", model.name())
                    .put("path", model.path().toString())
                    .put("bytes", model.bytes())
                    .put("complete", model.complete()));
            ReportOutput.json(out, report);
            return ExitCode.DONE;
        }
        if (kept.isEmpty()) {
            out.println("no models in " + store.root() + "; download one with `starforge pull OWNER/NAME`");
        }
        for (ModelStore.Kept model : kept) {
            out.println(String.format(
                    Locale.ROOT,
                    "%9.1f MB  %s%s",
                    model.bytes() / 1e6,
                    Escaped.of(model.name()),
                    model.complete() ? "" : "  (incomplete)"));
        }
        if (kept.stream().anyMatch(model -> !model.complete())) {
            out.println("To complete a model, run `starforge pull` with its name again.");
        }
        out.flush();
        return ExitCode.DONE;
    }
}
