package dev.starforge.cli.command;

import dev.starforge.cli.model.DefaultModel;
import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.options.ServingFlags;
import dev.starforge.cli.serve.Comparison;
import dev.starforge.cli.serve.ServerProcess;
import dev.starforge.train.tune.TunedModel;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

@Command(
        name = "serve",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        description = {
            "Serve a model to editors, OpenAI clients and browsers.",
            "",
            "Provides an OpenAI-compatible API, the /infill API of llama.cpp for editors, a native API, and a web"
                    + " page.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge serve                    # the model tuned on this repository",
            "  starforge serve model.gguf",
            "  starforge serve RUN --port 9000",
            "  starforge serve MODEL --adapter mine=RUN/best",
        },
        sortOptions = false)
final class ServeCommand implements Callable<Integer> {
    @Mixin
    private ServingFlags options;

    @Parameters(paramLabel = "MODEL", arity = "0..1", description = ModelFlags.KINDS_OR_DEFAULT)
    private String model;

    @Option(
            names = "--port",
            defaultValue = "8080",
            paramLabel = "N",
            description = "Port to listen on; 0 chooses a free port and prints it. Default: 8080.")
    private int port;

    @Option(
            names = "--compare",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description =
                    "Serve a tuned model as its base with its adapter, so that the web UI can compare the two: one copy"
                            + " of the weights, and the adapter. Default: yes, unless the base is larger than the tuned model"
                            + " or the adapter is not plain LoRA of the usual modules.")
    private boolean compare;

    @Override
    public Integer call() {
        PrintWriter err = options.commandLine().getErr();
        String named = DefaultModel.of(model, Path.of(""), err);
        TunedModel tuned = ModelFlags.describe(
                TunedModel.of(ModelLocator.find(named, ModelFlags.WANTED), Optional.empty(), ModelFlags::base), err);
        Optional<Comparison> comparison = compare ? Comparison.of(tuned) : Optional.empty();
        return new ServerProcess("serve", options, "").run(named, tuned, port, Optional.empty(), comparison);
    }
}
