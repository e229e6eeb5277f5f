package dev.starforge.cli.serve;

import dev.starforge.api.server.EngineOptions;
import dev.starforge.api.server.InvalidOptionException;
import dev.starforge.api.server.ModelServer;
import dev.starforge.cli.options.ServingFlags;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.cli.process.FatalErrors;
import dev.starforge.model.ModelException;
import dev.starforge.serve.WorkerOptions;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.http.ListenException;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.log.EventLog.LogFormat;
import dev.starforge.serve.log.EventLog.LogLevel;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.text.ErrorMessage;
import dev.starforge.text.FileException;
import dev.starforge.text.TokenizerException;
import dev.starforge.train.TrainException;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.URI;
import java.time.Clock;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The process of a {@link ModelServer}: its log, its exit code, and its end on SIGTERM. The exit code shows whether a restart can
 * help; it cannot after wrong usage or an unusable model.
 */
public final class ServerProcess {
    public static final int MODEL_REFUSED = 3;
    static final int DEVICE_LOST = 4;
    static final int OUT_OF_MEMORY = FatalErrors.OUT_OF_MEMORY;
    public static final int CALLBACK_FAILED = 6;

    private final String workerId;
    private final ServingFlags flags;
    private final String startSecret;
    private final EventLog log;

    /** @param startSecret shared with the pool that started the process; empty without a pool */
    public ServerProcess(String workerId, ServingFlags flags, String startSecret) {
        this.workerId = workerId;
        this.flags = flags;
        this.startSecret = startSecret;
        List<String> secrets = Stream.of(flags.apiKeys(), flags.adminKeys(), List.of(startSecret))
                .flatMap(List::stream)
                .toList();
        PrintWriter err = flags.commandLine().getErr();
        this.log = new EventLog(
                line -> {
                    err.println(line);
                    err.flush();
                },
                System.console() != null ? LogFormat.PLAIN : LogFormat.JSON,
                flags.level(),
                Clock.systemUTC(),
                secrets,
                Map.of("worker_id", workerId));
    }

    /**
     * Serves a model until shutdown or failure, and returns the exit code.
     *
     * @param given the model as named on the command line
     * @param comparison its base and adapter, if both are to be served
     */
    public int run(String given, TunedModel tuned, int port, Optional<URI> callback, Optional<Comparison> comparison) {
        flags.selectDevice();
        callback.ifPresent(this::checkCallback);
        WorkerOptions options =
                flags.worker(workerId, flags.names(given, tuned), port).withStartSecret(startSecret);
        comparison.ifPresent(
                both -> flags.requireBaseName(both.name(options.names().id())));
        FatalErrors.install(flags.commandLine().getErr());
        try {
            EngineOptions engine = comparison
                    .map(both -> both.applyTo(flags.engine(), options.names().id()))
                    .orElseGet(flags::engine);
            TunedModel loaded = comparison
                    .map(both -> new TunedModel(both.base(), Optional.empty(), ""))
                    .orElse(tuned);
            try (ModelServer server = ModelServer.start(
                    loaded,
                    options,
                    Comparison.sample(tuned).map(engine::withSample).orElse(engine),
                    flags::open,
                    log)) {
                if (callback.isPresent()) {
                    sendCallback(server, callback.get());
                }
                printHint(server, options, comparison);
                return await(server);
            }
        } catch (InvalidOptionException invalid) {
            throw flags.wrong(invalid.flagMessage());
        } catch (EngineException | FileException | ModelException | TokenizerException | TrainException refused) {
            return end(MODEL_REFUSED, refused);
        } catch (MemoryException full) {
            return end(OUT_OF_MEMORY, full);
        } catch (OutOfMemoryError full) {
            return end(OUT_OF_MEMORY, full);
        } catch (DeviceException lost) {
            return end(DEVICE_LOST, lost);
        } catch (CallbackFailed failed) {
            return end(CALLBACK_FAILED, failed);
        } catch (ListenException failed) {
            return end(ExitCode.FAILED, failed, failed.isPortInUse() ? "; choose another with --port" : "");
        } catch (IOException failed) {
            return end(ExitCode.FAILED, failed);
        } catch (IllegalArgumentException unusable) { // a reachable address without API keys
            throw flags.wrong(String.valueOf(unusable.getMessage()));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return ExitCode.FAILED;
        }
    }

    private void checkCallback(URI url) {
        if (!"http".equals(url.getScheme()) && !"https".equals(url.getScheme()) || url.getHost() == null) {
            throw flags.wrong("--callback-url: expected http://HOST..., got " + url);
        }
    }

    private static final class CallbackFailed extends Exception {
        private static final long serialVersionUID = 1;

        CallbackFailed(IOException cause) {
            super(ErrorMessage.of(cause), cause);
        }
    }

    private static void sendCallback(ModelServer server, URI listener) throws CallbackFailed, InterruptedException {
        try {
            server.sendCallback(listener);
        } catch (IOException failed) {
            throw new CallbackFailed(failed);
        }
    }

    /** Prints how to use the server. */
    private void printHint(ModelServer server, WorkerOptions options, Optional<Comparison> comparison) {
        URI uri = server.uri();
        PrintWriter out = flags.commandLine().getOut();
        out.println("serving " + options.names().id() + " at " + uri);
        String local = uri.toString().replace("//0.0.0.0:", "//127.0.0.1:").replace("//[0:0:0:0:0:0:0:0]:", "//[::1]:");
        out.println("  curl " + local + "/v1/completions -H 'Content-Type: application/json' "
                + (options.keys().clients().isEmpty() ? "" : "-H 'Authorization: Bearer KEY' ")
                + "-d '{\"model\": \"" + options.names().id()
                + "\", \"prompt\": \"def hello():\", \"max_tokens\": 32}'");
        out.println("  browser: " + local);
        out.println("  OpenAI clients: base_url " + local + "/v1");
        out.println("  " + EditorSettings.hint(server.supportsInfill(), local));
        comparison.ifPresent(both -> out.printf(
                Locale.ROOT,
                "  compare %s with %s: one copy of the weights and an adapter, %.0f MB with the KV cache; --no-compare serves %1$s"
                        + " alone%n",
                options.names().id(),
                both.name(options.names().id()),
                server.memoryBytes() / 1e6));
        out.flush();
    }

    /** Serves until shutdown or engine failure. */
    private int await(ModelServer server) throws InterruptedException {
        Thread hook = Thread.ofPlatform().unstarted(() -> {
            server.drain();
            Runtime.getRuntime().halt(ExitCode.DONE);
        });
        Runtime.getRuntime().addShutdownHook(hook);
        Optional<Throwable> failure = server.await();
        removeHook(hook);
        return failure.map(why -> end(isOutOfMemory(why) ? OUT_OF_MEMORY : DEVICE_LOST, why))
                .orElse(ExitCode.DONE);
    }

    private static boolean isOutOfMemory(Throwable failure) {
        return failure instanceof MemoryException || failure instanceof OutOfMemoryError;
    }

    private static void removeHook(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException ending) { // the shutdown hook is running
            return;
        }
    }

    private int end(int code, Throwable why) {
        return end(code, why, "");
    }

    private int end(int code, Throwable why, String hint) {
        log.line(LogLevel.ERROR, "worker", "end", workerId)
                .with("error_kind", String.valueOf(code))
                .log(ErrorMessage.of(why) + hint);
        return code;
    }
}
