package dev.starforge.cli.command;

import dev.starforge.cli.model.ModelLocator;
import dev.starforge.cli.options.ModelFlags;
import dev.starforge.cli.options.ServingFlags;
import dev.starforge.cli.process.StandardInput;
import dev.starforge.cli.serve.ServerProcess;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.net.URI;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

@Command(
        name = "worker",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        description = {
            "Serve a model as a worker of a pool.",
            "",
        },
        exitCodeListHeading = "%nExit codes:%n",
        exitCodeList = {
            "0:shut down after draining its requests",
            "2:invalid command line",
            "3:model cannot be loaded",
            "4:device failure",
            "5:out of device memory",
            "6:callback failed",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge worker --worker-id w1 --model MODEL --port 8081",
            "  starforge worker --worker-id w1 --model MODEL --port 0 \\",
            "      --callback-url http://127.0.0.1:7000/ready",
            "  starforge worker --worker-id w1 --model MODEL --port 8081 --adapter a=RUN/best",
        },
        sortOptions = false)
final class WorkerCommand implements Callable<Integer> {
    @Mixin
    private ServingFlags options;

    @Option(names = "--worker-id", required = true, paramLabel = "ID", description = "Name of the worker.")
    private String workerId;

    @Option(names = "--model", required = true, paramLabel = "MODEL", description = ModelFlags.KINDS)
    private String model;

    @Option(
            names = "--port",
            required = true,
            paramLabel = "N",
            description = "Port to listen on; 0 chooses a free port and prints it.")
    private int port;

    @ArgGroup
    private CallbackOptions callback = new CallbackOptions();

    static final class CallbackOptions {
        @Option(names = "--callback-url", paramLabel = "URL", description = "URL to notify when the worker is ready.")
        private URI url;

        @Option(names = "--no-callback", description = "No callback is sent (default).")
        private boolean none;

        Optional<URI> target() {
            return none ? Optional.empty() : Optional.ofNullable(url);
        }
    }

    @Option(
            names = "--start-secret-stdin",
            description =
                    "Read a secret of 64 hex digits from standard input. A pool that knows it can identify the worker and"
                            + " shut it down. Used by `starforge pool`.")
    private boolean secretFromInput;

    @Override
    public Integer call() throws IOException {
        String secret = secretFromInput ? secret() : "";
        TunedModel tuned =
                TunedModel.of(ModelLocator.find(model, ModelFlags.WANTED), Optional.empty(), ModelFlags::base);
        return new ServerProcess(workerId, options, secret)
                .run(model, tuned, port, callback.target(), Optional.empty());
    }

    private String secret() throws IOException {
        String secret = StandardInput.ofProcess().text().strip();
        if (!secret.matches("[0-9a-f]{64}")) {
            throw options.wrong("--start-secret-stdin: expected 64 hex digits on standard input, got " + secret.length()
                    + " characters");
        }
        return secret;
    }
}
