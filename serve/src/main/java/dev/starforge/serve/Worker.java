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
 * One model behind HTTP. It listens before there is an engine, so that a load can be watched: {@link #start}, {@link
 * #progress}, {@link #open}; then it serves until somebody asks it to {@link #drain}, over HTTP or here.
 */
public final class Worker implements AutoCloseable {
    private static final Duration LAST_WRITES = Duration.ofSeconds(2);

    private final WorkerOptions options;
    private final EventLog log;
    private final InferenceService inference;
    private final List<ApiRoute> routes;
    private final HttpServer server;
    private final AtomicBoolean draining = new AtomicBoolean();
    private final CountDownLatch ended = new CountDownLatch(1);

    private Worker(WorkerOptions options, EventLog log, Clock clock, RandomGenerator random) throws IOException {
        AccessControl.checkAddress(options.address().getAddress(), options.keys());
        this.options = options;
        this.log = log;
        Instant begin = clock.instant();
        inference = new InferenceService(
                options.model(), options.timeout(), () -> Duration.between(begin, clock.instant()));
        routes = routes(clock, random, () -> Duration.between(begin, clock.instant()));
        Router router = new Router(
                routes,
                new AccessControl(options.keys()),
                options.requests(),
                log,
                () -> id(random),
                refusals(inference));
        server = HttpServer.start(options.address(), router, options.limits(), clock);
    }

    /**
     * Listens; {@code /health} answers from now on.
     *
     * @param random for ids and seeds; used by many threads, as {@link java.security.SecureRandom} allows
     */
    public static Worker start(WorkerOptions options, EventLog log, Clock clock, RandomGenerator random)
            throws IOException {
        Worker worker = new Worker(options, log, clock, random);
        log.line(LogLevel.INFO, "worker", "listen", worker.uri().toString()).log("listening on " + worker.uri());
        return worker;
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
        all.addAll(new LifecycleRoutes(options.workerId(), inference, uptime, this::beginToDrain).routes());
        all.addAll(new ExecuteRoutes(inference, log, clock, random::nextLong).routes());
        all.addAll(new CompletionRoutes(inference, clock, random::nextLong, () -> id(random)).routes());
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

    /** Method and path of everything it answers. */
    public List<String> operations() {
        return routes.stream().map(route -> route.method() + " " + route.path()).toList();
    }

    public URI uri() {
        String host = server.address().getHostAddress();
        return URI.create("http://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + server.port());
    }

    /** How much of the model is loaded, 0 to 100. */
    public void progress(int percent) {
        inference.progress(percent);
    }

    /** The model is loaded: serves requests. */
    public void open(InferenceEngine engine) {
        inference.open(engine);
        log.line(LogLevel.INFO, "worker", "ready", engine.card().id())
                .with("model_ref", engine.card().id())
                .with("device", engine.card().device())
                .log("the model is loaded, requests are served");
    }

    /** Connections that are open, for whoever looks for a leak. */
    public int connections() {
        return server.connections();
    }

    private void beginToDrain() {
        inference.drain();
        Thread.ofPlatform().name("drain").start(this::drain);
    }

    /** Takes no new work, lets running work finish for a while, and ends; returns when that is done. */
    public void drain() {
        inference.drain();
        if (draining.compareAndSet(false, true)) {
            log.line(LogLevel.INFO, "worker", "drain", options.workerId())
                    .log("shutting down: running requests finish");
            try {
                inference.awaitRuns(options.drainTime());
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            } finally {
                server.close(LAST_WRITES);
                log.line(LogLevel.INFO, "worker", "end", options.workerId()).log("all requests have ended");
                ended.countDown();
            }
        }
        await();
    }

    /** Waits until the worker has ended. */
    public void await() {
        try {
            ended.await();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    /** Ends at once. */
    @Override
    public void close() {
        server.close();
        ended.countDown();
    }
}
