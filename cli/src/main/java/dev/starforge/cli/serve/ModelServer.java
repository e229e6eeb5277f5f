package dev.starforge.cli.serve;

import dev.starforge.cli.options.ApiKeys;
import dev.starforge.cli.options.ServingFlags;
import dev.starforge.cli.process.ExitCode;
import dev.starforge.model.ModelException;
import dev.starforge.serve.Callback;
import dev.starforge.serve.Worker;
import dev.starforge.serve.WorkerOptions;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.log.EventLog.LogFormat;
import dev.starforge.serve.log.EventLog.LogLevel;
import dev.starforge.serve.scheduler.Scheduler;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.text.TokenizerException;
import dev.starforge.train.TrainException;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Runs a worker: listen, load, warm up, send the callback, serve, drain. The exit code shows whether a restart can help; it cannot
 * after wrong usage or an unusable model.
 */
public final class ModelServer {
    public static final int MODEL_REFUSED = 3;
    static final int DEVICE_LOST = 4;
    static final int OUT_OF_MEMORY = 5;
    public static final int CALLBACK_FAILED = 6;

    private static final Duration LOOK = Duration.ofMillis(200);

    private final String workerId;
    private final TunedModel tuned;
    private final int port;
    private final ServingFlags options;
    private final Optional<URI> callback;
    private final List<String> keys;
    private final EventLog log;

    public ModelServer(String workerId, TunedModel tuned, int port, ServingFlags options, Optional<URI> callback) {
        this.workerId = workerId;
        this.tuned = tuned;
        this.port = port;
        this.options = options;
        this.callback = callback;
        this.keys = ApiKeys.read("--api-key-file", options.keys, options::wrong);
        PrintWriter err = options.commandLine().getErr();
        this.log = new EventLog(
                line -> {
                    err.println(line);
                    err.flush();
                },
                System.console() != null ? LogFormat.PLAIN : LogFormat.JSON,
                options.level(),
                Clock.systemUTC(),
                keys,
                Map.of("worker_id", workerId));
    }

    public int run() {
        options.check(port);
        callback.ifPresent(url -> {
            if (!List.of("http", "https").contains(String.valueOf(url.getScheme())) || url.getHost() == null) {
                throw options.wrong("--callback-url: expected http://HOST..., got " + url);
            }
        });
        String id = options.servedName != null
                ? options.servedName
                : ServedModelLoader.name(tuned.adapter().orElse(tuned.model()));
        if (options.adapters.containsKey(id)) {
            throw options.wrong("--adapter: " + id + " is the name of the model; choose another name for the adapter");
        }
        try (Worker worker = Worker.start(settings(id), log, Clock.systemUTC(), new SecureRandom())) {
            Map<String, Path> adapters = adapters();
            Scheduler scheduler = Scheduler.start(
                    () -> new ServedModelLoader(tuned, id, options).load(worker::progress),
                    options.maxQueue,
                    System::nanoTime,
                    Clock.systemUTC());
            try (scheduler) {
                adapters.forEach(scheduler::loadAdapter);
                warmUp(scheduler);
                worker.open(scheduler);
                tell(worker, scheduler);
                hint(worker, id);
                return serve(worker, scheduler);
            }
        } catch (EngineException | ModelException | TokenizerException | TrainException refused) {
            return end(MODEL_REFUSED, refused);
        } catch (MemoryException full) {
            return end(OUT_OF_MEMORY, full);
        } catch (DeviceException lost) {
            return end(DEVICE_LOST, lost);
        } catch (CallbackFailed failed) {
            return end(CALLBACK_FAILED, failed);
        } catch (IOException taken) {
            return end(ExitCode.FAILED, taken);
        } catch (IllegalArgumentException unusable) { // a reachable address without API keys
            throw options.wrong(String.valueOf(unusable.getMessage()));
        } catch (RuntimeException defect) {
            throw defect;
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    /** Runs a first step, which allocates memory outside the plan; running out of memory here exits with 5. */
    private static void warmUp(Scheduler scheduler) {
        try {
            scheduler.warmUp();
        } catch (DeviceException failed) {
            throw scheduler
                    .failure()
                    .filter(MemoryException.class::isInstance)
                    .map(DeviceException.class::cast)
                    .orElse(failed);
        }
    }

    /** Resolves adapters, which can be runs or checkpoints. */
    private Map<String, Path> adapters() {
        Map<String, Path> found = new LinkedHashMap<>();
        options.adapters.forEach((name, place) ->
                found.put(name, TunedModel.adapterOf(place, "`starforge serve " + place + "` serves it")));
        return found;
    }

    private WorkerOptions settings(String id) throws IOException {
        WorkerOptions settings = WorkerOptions.local(workerId, id, port)
                .withAddress(new InetSocketAddress(InetAddress.getByName(options.host), port))
                .withKeys(keys)
                .withTimes(Duration.ofSeconds(options.timeout), Duration.ofSeconds(30));
        return options.adapterRoot == null ? settings : settings.withAdapterRoot(options.adapterRoot);
    }

    private int end(int code, Throwable why) {
        log.line(LogLevel.ERROR, "worker", "end", workerId)
                .with("error_kind", String.valueOf(code))
                .log(String.valueOf(why.getMessage() == null ? why : why.getMessage()));
        return code;
    }

    private static final class CallbackFailed extends Exception {
        private static final long serialVersionUID = 1;

        CallbackFailed(IOException cause) {
            super(cause.getMessage(), cause);
        }
    }

    private void tell(Worker worker, Scheduler scheduler) throws CallbackFailed, InterruptedException {
        if (callback.isEmpty()) {
            return;
        }
        String device = scheduler.card().device();
        String backend = device.replaceAll(":.*", "");
        try {
            new Callback(callback.get(), keys.stream().findFirst().orElse(""), Duration.ofMillis(500))
                    .send(new Callback.Ready(
                            workerId,
                            scheduler.card().id(),
                            scheduler.status().memoryBytes(),
                            backend.equals("cuda") ? "vram-only" : backend.equals("metal") ? "unified" : "system",
                            Callback.reachable(worker.uri(), callback.get()),
                            "starforge",
                            List.of("text-gen", "embeddings"),
                            device,
                            backend,
                            backend.equals("metal") ? "pre-release" : "ready"));
        } catch (IOException failed) {
            throw new CallbackFailed(failed);
        }
    }

    /** Prints how to use the server. */
    private void hint(Worker worker, String id) {
        PrintWriter out = options.commandLine().getOut();
        out.println("serving " + id + " at " + worker.uri());
        String here = worker.uri()
                .toString()
                .replace("//0.0.0.0:", "//127.0.0.1:")
                .replace("//[0:0:0:0:0:0:0:0]:", "//[::1]:");
        out.println("  curl " + here + "/v1/completions -H 'Content-Type: application/json' "
                + (keys.isEmpty() ? "" : "-H 'Authorization: Bearer KEY' ")
                + "-d '{\"model\": \"" + id + "\", \"prompt\": \"def hello():\", \"max_tokens\": 32}'");
        out.println("  browser: " + here);
        out.println("  OpenAI clients: base_url " + here + "/v1; llama.vim: endpoint_fim " + here
                + "/infill; llama.vscode: endpoint " + here);
        out.flush();
    }

    /** Serves until shutdown or engine failure. */
    private int serve(Worker worker, Scheduler scheduler) throws InterruptedException {
        Thread hook = Thread.ofPlatform().unstarted(() -> {
            worker.drain();
            Runtime.getRuntime().halt(ExitCode.DONE);
        });
        Runtime.getRuntime().addShutdownHook(hook);
        Thread waiting = Thread.ofVirtual().start(worker::await);
        while (!waiting.join(LOOK)) {
            if (!scheduler.status().alive()) {
                Throwable why = scheduler.failure().orElseThrow();
                worker.close();
                forget(hook);
                return end(why instanceof MemoryException ? OUT_OF_MEMORY : DEVICE_LOST, why);
            }
        }
        forget(hook);
        return ExitCode.DONE;
    }

    private static void forget(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException ending) { // the shutdown hook is running
            return;
        }
    }
}
