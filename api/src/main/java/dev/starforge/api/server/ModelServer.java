package dev.starforge.api.server;

import dev.starforge.serve.Callback;
import dev.starforge.serve.Worker;
import dev.starforge.serve.WorkerOptions;
import dev.starforge.serve.engine.EngineException;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.scheduler.Scheduler;
import dev.starforge.tensor.device.DeviceException;
import dev.starforge.tensor.device.MemoryException;
import dev.starforge.text.fim.FimMarkers;
import dev.starforge.train.tune.TunedModel;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * A model behind HTTP, from loading to draining. The server listens before it loads the model, so that {@code /health} reports
 * progress.
 */
public final class ModelServer implements AutoCloseable {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration FIRST_PAUSE = Duration.ofMillis(500);

    private final WorkerOptions options;
    private final Worker worker;
    private final Scheduler scheduler;

    private ModelServer(WorkerOptions options, Worker worker, Scheduler scheduler) {
        this.options = options;
        this.worker = worker;
        this.scheduler = scheduler;
    }

    /**
     * Listens, loads the model and its adapters, and runs a first step.
     *
     * @param device opens the device, on the engine's thread
     */
    public static ModelServer start(
            TunedModel model, WorkerOptions options, EngineOptions engine, Supplier<OpenedDevice> device, EventLog log)
            throws IOException, InterruptedException {
        Worker worker = Worker.start(options, log, Clock.systemUTC(), new SecureRandom());
        try {
            Scheduler scheduler = Scheduler.start(
                    () -> new ServedModelLoader(model, options.names(), engine).load(device.get(), worker::progress),
                    engine.maxQueue(),
                    System::nanoTime,
                    Clock.systemUTC());
            try {
                engine.adapters().forEach((name, folder) -> loadAdapter(scheduler, name, folder));
                warmUp(scheduler);
                worker.open(scheduler);
                return new ModelServer(options, worker, scheduler);
            } catch (RuntimeException | Error failure) {
                scheduler.close();
                throw failure;
            }
        } catch (Exception | Error failure) {
            worker.close();
            throw failure;
        }
    }

    /** The message for a client has no path, unlike this one. */
    private static void loadAdapter(Scheduler scheduler, String name, Path folder) {
        try {
            scheduler.loadAdapter(name, folder);
        } catch (EngineException e) {
            throw new EngineException(e.kind(), "adapter " + name + "=" + folder + ": " + e.text());
        }
    }

    /** Runs a first step, which allocates memory outside the plan. */
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

    /** The default name of a model in the API: the name of its file or folder. */
    public static String nameOf(Path model) {
        String file = model.toAbsolutePath().normalize().getFileName().toString();
        return file.replaceAll("\\.gguf$", "");
    }

    /** Returns true if the model has fill-in-the-middle tokens, which {@code /infill} and {@code suffix} need. */
    public boolean supportsInfill() {
        return FimMarkers.of(scheduler.card().tokenizer()).isPresent();
    }

    /** Bytes of device memory in use. */
    public long memoryBytes() {
        return scheduler.status().memoryBytes();
    }

    /** The address of the server. */
    public URI uri() {
        return worker.uri();
    }

    /** Notifies a URL that the worker is ready; retries. */
    public void sendCallback(URI listener) throws IOException, InterruptedException {
        String device = scheduler.card().device();
        String backend = device.replaceAll(":.*", "");
        new Callback(listener, options.keys().callbackKey(), FIRST_PAUSE)
                .send(new Callback.Ready(
                        options.workerId(),
                        scheduler.card().id(),
                        scheduler.status().memoryBytes(),
                        backend.equals("cuda") ? "vram-only" : backend.equals("metal") ? "unified" : "system",
                        Callback.reachable(worker.uri(), listener),
                        "starforge",
                        List.of("text-gen", "embeddings"),
                        device,
                        backend,
                        backend.equals("metal") ? "pre-release" : "ready"));
    }

    /**
     * Waits until the server has drained or its engine has failed.
     *
     * @return the failure of the engine; empty after a drain
     */
    public Optional<Throwable> await() throws InterruptedException {
        Thread waiting = Thread.ofVirtual().start(worker::await);
        while (!waiting.join(POLL)) {
            if (!scheduler.status().alive()) {
                worker.close();
                return scheduler.failure();
            }
        }
        return Optional.empty();
    }

    /** Rejects new requests, waits for running ones, and stops listening. */
    public void drain() {
        worker.drain();
    }

    /** Stops at once. */
    @Override
    public void close() {
        worker.close();
        scheduler.close();
    }
}
