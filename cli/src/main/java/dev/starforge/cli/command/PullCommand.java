package dev.starforge.cli.command;

import dev.starforge.cli.hub.Hub;
import dev.starforge.cli.hub.HubException;
import dev.starforge.cli.hub.ModelId;
import dev.starforge.cli.hub.ModelStore;
import dev.starforge.cli.hub.Pull;
import dev.starforge.cli.hub.PulledModel;
import dev.starforge.cli.model.Environment;
import dev.starforge.cli.output.ProgressBar;
import dev.starforge.cli.output.ReportOutput;
import dev.starforge.cli.output.Terminal;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.ShutdownCleanup;
import dev.starforge.text.json.Jackson;
import dev.starforge.train.Durations;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import tools.jackson.databind.node.ObjectNode;

@Command(
        name = "pull",
        mixinStandardHelpOptions = true,
        versionProvider = RootCommand.Version.class,
        sortOptions = false,
        description = {
            "Download a model from the Hugging Face Hub.",
            "",
            "Checks the hash of each file. Run the same command again to resume an interrupted download. Pickle files"
                    + " are refused, since loading them executes code. The token comes from HF_TOKEN or `hf auth login`,"
                    + " and is sent only to the hub. Honors HTTPS_PROXY, NO_PROXY, HF_ENDPOINT and HF_HUB_OFFLINE. A model"
                    + " that is complete in the HF cache is not downloaded again.",
            "",
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  starforge pull bigcode/starcoder2-3b",
            "  starforge pull OWNER/NAME-GGUF --include '*Q4_K_M.gguf'",
            "  starforge pull OWNER/NAME@v1.0 --out models/name",
            "  starforge train --set model.pretrained_model=OWNER/NAME --dataset data",
        })
final class PullCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(
            paramLabel = "REPO[@REVISION]",
            description = "Repository as OWNER/NAME, optionally with a branch, tag or commit. Default revision: main.")
    private String model;

    @Option(
            names = "--include",
            paramLabel = "GLOB",
            description =
                    "Download only matching files. Can be repeated. Default: safetensors or the only .gguf file, with"
                            + " configuration and tokenizer, of the top-level folder.")
    private List<String> include = List.of();

    @Option(
            names = "--out",
            paramLabel = "DIR",
            description = "Folder to download to. Default: the model store; see `starforge list`.")
    private Path out;

    @Option(names = "--to", paramLabel = "DIR", description = "Same as --out.")
    private Path alias;

    @Option(
            names = "--endpoint",
            paramLabel = "URL",
            description = "URL of the hub. Default: HF_ENDPOINT, or https://huggingface.co.")
    private URI endpoint;

    @Option(
            names = "--offline",
            description = "Do not use the network; only report whether the model is on this machine. Same as"
                    + " HF_HUB_OFFLINE=1.")
    private boolean offline;

    @Option(names = "--json", description = "Print the result as JSON.")
    private boolean json;

    @Override
    public Integer call() throws IOException {
        ModelId id = ModelId.parse(model)
                .orElseThrow(() -> new ParameterException(
                        spec.commandLine(), "expected OWNER/NAME or OWNER/NAME@REVISION, got " + model));
        if (out != null && alias != null) {
            throw new ParameterException(spec.commandLine(), "--out and --to are the same; pass one of them");
        }
        Path to = out == null ? alias : out;
        Environment environment = Environment.system();
        ModelStore store = environment.store();
        Path folder = to == null ? store.place(id) : to;
        if (offline || environment.offline()) {
            Path here = PulledModel.read(folder)
                    .map(done -> folder)
                    .or(() -> to == null ? store.cached(id) : Optional.empty())
                    .orElseThrow(() -> new HubException(
                            id + " is not on this machine, and the network is disabled (--offline or HF_HUB_OFFLINE)"));
            print(id, here, Optional.empty());
            return ExitCode.DONE;
        }
        PrintWriter err = spec.commandLine().getErr();
        ProgressBar bar = new ProgressBar(err, Terminal.isTerminal() && !json);
        Pull pull = new Pull(hub(environment, line -> bar.print("pull: " + line)), id, include);
        PulledModel wanted = pull.wanted();
        Optional<Path> cached = to == null ? store.cached(new ModelId(id.repo(), wanted.commit())) : Optional.empty();
        if (cached.isPresent() && wanted.isIn(cached.get())) {
            print(id, cached.get(), Optional.of(wanted));
            return ExitCode.DONE;
        }
        try (ShutdownCleanup interruption = ShutdownCleanup.watch(
                Duration.ofSeconds(5), () -> {}, "interrupted; run the same command again to resume", err)) {
            Meter meter = new Meter(bar, System.nanoTime());
            pull.fetch(wanted, folder, (done, total) -> {
                interruption.check();
                meter.at(done, total);
            });
            interruption.finished();
            bar.clear();
        }
        print(id, folder, Optional.of(wanted));
        return ExitCode.DONE;
    }

    private Hub hub(Environment environment, Consumer<String> notices) {
        String source = endpoint == null ? "HF_ENDPOINT" : "--endpoint";
        URI given = endpoint == null ? environment.endpoint() : endpoint;
        String text = given.toString().replaceAll("/+$", "");
        boolean http = "http".equals(given.getScheme());
        if (given.getHost() == null
                || given.getPort() > 65_535
                || given.getQuery() != null
                || given.getFragment() != null
                || !http && !"https".equals(given.getScheme())) {
            throw new ParameterException(spec.commandLine(), source + ": expected https://HOST, got " + given);
        }
        Optional<String> token = environment.token();
        if (http
                && token.isPresent()
                && !List.of("localhost", "127.0.0.1", "[::1]").contains(given.getHost())) {
            throw new ParameterException(
                    spec.commandLine(),
                    source + " " + given + ": the token would be sent unencrypted; use https or unset HF_TOKEN");
        }
        return new Hub(URI.create(text), token, environment.proxies(), Hub.Timeouts.DEFAULT, notices);
    }

    private void print(ModelId id, Path folder, Optional<PulledModel> pulled) {
        ObjectNode report = Jackson.object();
        report.put("model", id.toString()).put("path", folder.toString());
        pulled.ifPresent(model -> report.put("commit", model.commit())
                .put("files", model.files().size())
                .put("bytes", model.bytes()));
        ReportOutput.print(spec.commandLine().getOut(), report, json);
    }

    /** Prints rate and remaining time: a bar on a terminal, otherwise a line every ten seconds. */
    private static final class Meter {
        private static final double PIPE_SECONDS = 10;

        private final ProgressBar bar;
        private final long began;
        private double lastPrinted;
        private long first = -1;

        Meter(ProgressBar bar, long began) {
            this.bar = bar;
            this.began = began;
        }

        void at(long done, long total) {
            first = first < 0 ? done : first;
            double seconds = (System.nanoTime() - began) / 1e9;
            if (!bar.isTerminal() && seconds - lastPrinted < PIPE_SECONDS) {
                return;
            }
            lastPrinted = seconds;
            double rate = (done - first) / seconds;
            String text = String.format(
                    Locale.ROOT,
                    "%.2f of %.2f GB  %.1f MB/s  %s left",
                    done / 1e9,
                    total / 1e9,
                    rate / 1e6,
                    rate > 0 ? Durations.text((total - done) / rate) : "?");
            if (bar.isTerminal()) {
                bar.draw("pull", done, total, text);
            } else {
                bar.print("pull: " + text);
            }
        }
    }
}
