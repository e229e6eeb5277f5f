package dev.starforge.serve;

import dev.starforge.serve.api.AccessControl;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Router;
import dev.starforge.serve.engine.InferenceEngine;
import dev.starforge.serve.generation.InferenceService;
import dev.starforge.serve.http.HttpServer;
import dev.starforge.serve.llama.InfillRoutes;
import dev.starforge.serve.llama.TokenRoutes;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.log.EventLog.LogLevel;
import dev.starforge.serve.metrics.WorkerMetrics.RequestOutcome;
import dev.starforge.serve.openai.CompletionRoutes;
import dev.starforge.serve.openai.EmbeddingRoutes;
import dev.starforge.serve.openai.ModelRoutes;
import dev.starforge.serve.page.PageRoutes;
import dev.starforge.serve.worker.ExecuteRoutes;
import dev.starforge.serve.worker.LifecycleRoutes;
import java.io.IOException;
import java.net.URI;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import java.util.random.RandomGenerator;

/**
 * Serves one model over HTTP. It listens before the model is loaded, so that {@code /health} reports progress: {@link #start}, {@link
 * #progress}, {@link #open}; then it serves until {@link #drain} or {@code POST /shutdown}.
 */
public final class Worker implements AutoCloseable {
    private static final Duration CLOSE_GRACE = Duration.ofSeconds(2);

    private final WorkerOptions options;
    private final EventLog log;
    private final InferenceService inference;
    private final List<ApiRoute> routes;
    private final HttpServer server;
    private final AtomicBoolean draining = new AtomicBoolean();
    private final CountDownLatch ended = new CountDownLatch(1);

    private Worker(WorkerOptions options, EventLog log, Clock clock, RandomGenerator random) throws IOException {
        AccessControl.checkAddress(
                options.address().getAddress(), options.keys().clients());
        this.options = options;
        this.log = log;
        Instant begin = clock.instant();
        inference = new InferenceService(
                options.names().id(), options.times().request(), () -> Duration.between(begin, clock.instant()));
        routes = routes(clock, random, () -> Duration.between(begin, clock.instant()));
        Router router =
                new Router(routes, access(options), options.requests(), log, () -> id(random), refusals(inference));
        server = HttpServer.start(options.address(), router, options.limits(), clock);
    }

    /**
     * Starts to listen.
     *
     * @param random for ids and seeds; must be thread-safe, such as {@link java.security.SecureRandom}
     */
    public static Worker start(WorkerOptions options, EventLog log, Clock clock, RandomGenerator random)
            throws IOException {
        Worker worker = new Worker(options, log, clock, random);
        log.line(LogLevel.INFO, "worker", "listen", worker.uri().toString()).log("listening on " + worker.uri());
        return worker;
    }

    private static AccessControl access(WorkerOptions options) {
        List<String> admins = options.keys().allAdmins();
        boolean clientsAreAdmins = options.keys().clients().isEmpty() && admins.isEmpty();
        return new AccessControl(options.keys().clients(), admins, clientsAreAdmins, _ -> false);
    }

    private static Router.RejectionCounter refusals(InferenceService inference) {
        return new Router.RejectionCounter() {
            @Override
            public void invalid() {
                inference.metrics().refused(RequestOutcome.INVALID);
            }

            @Override
            public void rejected() {
                inference.metrics().refused(RequestOutcome.REJECTED);
            }
        };
    }

    private List<ApiRoute> routes(Clock clock, RandomGenerator random, Supplier<Duration> uptime) {
        List<ApiRoute> all = new ArrayList<>();
        all.addAll(new LifecycleRoutes(
                        options.workerId(),
                        options.keys().secret(),
                        () -> server.port(),
                        inference,
                        uptime,
                        this::startDrain)
                .routes());
        all.addAll(new ExecuteRoutes(inference, log, clock, random::nextLong).routes());
        all.addAll(new CompletionRoutes(
                        inference, clock, random::nextLong, () -> id(random), options.specialTokensInContent())
                .routes());
        all.addAll(new ModelRoutes(inference, options.adapterRoot()).routes());
        all.addAll(new EmbeddingRoutes(inference).routes());
        all.addAll(new InfillRoutes(inference, random::nextLong).routes());
        all.addAll(new TokenRoutes(inference).routes());
        all.addAll(PageRoutes.ofWorker().routes());
        return List.copyOf(all);
    }

    private static String id(RandomGenerator random) {
        return HexFormat.of().toHexDigits(random.nextLong()) + HexFormat.of().toHexDigits(random.nextLong());
    }

    /** Method and path of each route. */
    public List<String> operations() {
        return routes.stream().map(route -> route.method() + " " + route.path()).toList();
    }

    public URI uri() {
        String host = server.address().getHostAddress();
        return URI.create("http://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + server.port());
    }

    /** Sets the loading progress in percent. */
    public void progress(int percent) {
        inference.progress(percent);
    }

    /** Starts to serve requests with a loaded model. */
    public void open(InferenceEngine engine) {
        inference.open(engine);
        log.line(LogLevel.INFO, "worker", "ready", engine.card().id())
                .with("model_ref", engine.card().id())
                .with("device", engine.card().device())
                .log("model loaded, serving requests");
    }

    /** Number of open connections. */
    public int connections() {
        return server.connections();
    }

    private void startDrain() {
        inference.drain();
        Thread.ofPlatform().name("drain").start(this::drain);
    }

    /** Rejects new requests, waits up to the drain time for running ones, and stops; returns when stopped. */
    public void drain() {
        inference.drain();
        if (draining.compareAndSet(false, true)) {
            log.line(LogLevel.INFO, "worker", "drain", options.workerId()).log("draining: running requests finish");
            try {
                inference.awaitInFlight(options.times().drain());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } finally {
                server.close(CLOSE_GRACE);
                log.line(LogLevel.INFO, "worker", "end", options.workerId()).log("stopped");
                ended.countDown();
            }
        }
        await();
    }

    /** Waits until the worker has stopped. */
    public void await() {
        try {
            ended.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Stops at once. */
    @Override
    public void close() {
        server.close();
        ended.countDown();
    }
}
