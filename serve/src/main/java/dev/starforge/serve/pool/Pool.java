package dev.starforge.serve.pool;

import dev.starforge.serve.api.AccessControl;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Router;
import dev.starforge.serve.http.HttpLimits;
import dev.starforge.serve.http.HttpServer;
import dev.starforge.serve.log.EventLog;
import dev.starforge.serve.log.EventLog.LogLevel;
import dev.starforge.serve.page.PageRoutes;
import dev.starforge.serve.pool.api.PoolEvents;
import dev.starforge.serve.pool.api.PoolMetrics;
import dev.starforge.serve.pool.api.PoolRoutes;
import dev.starforge.serve.pool.api.WorkerRegistry;
import dev.starforge.serve.pool.api.WorkerRoutes;
import dev.starforge.serve.pool.config.ModelEntry;
import dev.starforge.serve.pool.config.PoolConfig;
import dev.starforge.serve.pool.config.RemoteEntry;
import dev.starforge.serve.pool.device.DeviceDiscovery;
import dev.starforge.serve.pool.proxy.HttpWorkerClient;
import dev.starforge.serve.pool.proxy.Relay;
import dev.starforge.serve.pool.route.WorkerRouting;
import dev.starforge.serve.pool.supervise.OnDemandStarter;
import dev.starforge.serve.pool.supervise.PoolException;
import dev.starforge.serve.pool.supervise.PoolTimeouts;
import dev.starforge.serve.pool.supervise.Supervisor;
import dev.starforge.serve.pool.supervise.SupervisorContext;
import dev.starforge.serve.pool.supervise.WorkerCommand;
import dev.starforge.serve.pool.supervise.WorkerPreflight;
import dev.starforge.serve.pool.supervise.WorkerStarter;
import dev.starforge.serve.pool.supervise.WorkerState;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Many workers behind one address. It holds no model and loads no backend: what may fail runs in processes of its own, so that
 * this one survives them. It starts with what an earlier pool left, and serves until somebody asks it to {@link #drain}.
 */
public final class Pool implements AutoCloseable {
    private static final Duration TICK = Duration.ofMillis(100);
    private static final Duration ANSWER = Duration.ofSeconds(2);
    private static final Duration LAST_WRITES = Duration.ofSeconds(2);
    private static final int REQUESTS = 2048;
    private static final HttpLimits LIMITS = HttpLimits.DEFAULT.withConnections(4096);

    private final PoolConfig config;
    private final PoolDependencies parts;
    private final EventLog log;
    private final Supervisor supervisor;
    private final WorkerStarter starter;
    private final WorkerRegistry registry;
    private final List<ApiRoute> routes;
    private final HttpServer server;
    private final AtomicBoolean draining = new AtomicBoolean();
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile boolean ticking = true;

    private Pool(PoolConfig config, PoolDependencies parts, PoolKeys keys, EventLog log)
            throws IOException, InterruptedException {
        InetSocketAddress address = address(config.listen());
        AccessControl.checkAddress(address.getAddress(), keys.clients());
        this.config = config;
        this.parts = parts;
        this.log = log;
        PoolTimeouts timing = parts.timing();
        PoolMetrics metrics = new PoolMetrics();
        PoolEvents happenings = new PoolEvents(log, metrics, parts.clock());
        Executor checks = work -> Thread.ofVirtual().name("pool check").start(work);
        WorkerCommand command = new WorkerCommand(
                parts.program(),
                config.apiKeyFile().map(Path::toAbsolutePath),
                keys.clients().stream().findFirst().orElse(""),
                this::uri);
        supervisor = new Supervisor(new SupervisorContext(
                config.state(),
                parts.launcher(),
                new HttpWorkerClient(ANSWER, timing.token()),
                command,
                timing,
                config.restart(),
                parts.nanos(),
                parts.clock(),
                parts.random(),
                checks,
                happenings));
        try {
            starter = new WorkerStarter(
                    config,
                    new DeviceDiscovery(parts.commands(), parts.program()),
                    new WorkerPreflight(parts.commands(), parts.program()),
                    supervisor,
                    timing);
            registry = new WorkerRegistry(supervisor, parts.resolver());
            WorkerRouting routing = new WorkerRouting();
            OnDemandStarter demand = new OnDemandStarter(config, supervisor, starter, timing);
            List<ApiRoute> all = new ArrayList<>();
            all.addAll(
                    new PoolRoutes(config, supervisor, starter, routing, metrics, happenings, parts.clock()).routes());
            all.addAll(new WorkerRoutes(supervisor, starter, registry).routes());
            all.addAll(new Relay(demand, routing, metrics).routes());
            all.addAll(PageRoutes.ofPool().routes());
            routes = List.copyOf(all);
            AccessControl access = new AccessControl(keys.clients(), keys.admins());
            Router router = new Router(routes, access, REQUESTS, log, this::id, Router.RejectionCounter.UNCOUNTED);
            server = HttpServer.start(address, router, LIMITS, parts.clock());
        } catch (IOException | InterruptedException | RuntimeException failure) {
            supervisor.close();
            throw failure;
        }
    }

    /**
     * Listens, takes over what runs, and starts what is to run.
     *
     * @param program how this program is started, without a verb: workers are it
     * @param keys as the config's files have them
     * @throws IOException when the port or the state folder is taken, or no device can be found
     */
    public static Pool start(PoolConfig config, List<String> program, PoolKeys keys, EventLog log)
            throws IOException, InterruptedException {
        return start(config, PoolDependencies.ofSystem(program), keys, log);
    }

    static Pool start(PoolConfig config, PoolDependencies parts, PoolKeys keys, EventLog log)
            throws IOException, InterruptedException {
        Pool pool = new Pool(config, parts, keys, log);
        try {
            pool.supervisor.adopt();
            config.workers().forEach(pool::watch);
        } catch (IOException | RuntimeException failure) {
            pool.close();
            throw failure;
        }
        Thread.ofPlatform().name("pool tick").daemon().start(pool::tick);
        Thread.ofVirtual().name("pool autostart").start(pool::autostart);
        Thread.ofVirtual().name("pool probe").start(pool::probe);
        log.line(LogLevel.INFO, "pool", "listen", pool.uri().toString()).log("listening on " + pool.uri());
        return pool;
    }

    private static InetSocketAddress address(String listen) {
        int colon = listen.lastIndexOf(':');
        String port = listen.substring(colon + 1);
        if (colon < 1 || !port.matches("[0-9]{1,5}") || Integer.parseInt(port) > 65_535) {
            throw new IllegalArgumentException("listen: expected HOST:PORT, got " + listen);
        }
        InetSocketAddress address = new InetSocketAddress(listen.substring(0, colon), Integer.parseInt(port));
        if (address.isUnresolved()) {
            throw new IllegalArgumentException("listen: " + listen + ": this host has no address");
        }
        return address;
    }

    private String id() {
        return HexFormat.of().toHexDigits(parts.random().nextLong());
    }

    private void watch(RemoteEntry entry) {
        try {
            registry.watch(entry);
        } catch (PoolException failure) {
            warn("register", entry.uri().toString(), failure);
        }
    }

    private void autostart() {
        for (ModelEntry entry : config.models()) {
            boolean there = supervisor.views().stream()
                    .anyMatch(view -> view.model().equals(entry.name()) && view.state() != WorkerState.STOPPED);
            if (entry.autostart() && !there) {
                try {
                    starter.start(new WorkerStarter.StartRequest(entry.name(), "", Map.of(), Optional.empty()));
                } catch (PoolException failure) {
                    warn("autostart", entry.name(), failure);
                } catch (InterruptedException stopped) {
                    Thread.currentThread().interrupt();
                    return;
                }
            }
        }
    }

    private void probe() {
        try {
            starter.probe();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            return;
        }
        starter.deployment()
                .ifPresent(here -> log.line(LogLevel.INFO, "pool", "deploy", config.id())
                        .log("workers get, unless told otherwise, " + here.text()));
    }

    private void warn(String action, String target, Exception failure) {
        log.line(LogLevel.WARN, "pool", action, target)
                .with("error_kind", failure.getClass().getSimpleName())
                .log(action + " " + target + " failed: " + failure.getMessage());
    }

    /** A failure of one look does not end looking. */
    private void tick() {
        long resolved = parts.nanos().getAsLong();
        while (ticking) {
            try {
                Thread.sleep(TICK);
                supervisor.tick();
                supervisor.stopUnused(model -> config.model(model).flatMap(ModelEntry::idleStop));
                if (parts.nanos().getAsLong() - resolved
                        >= parts.timing().resolve().toNanos()) {
                    resolved = parts.nanos().getAsLong();
                    Thread.ofVirtual().name("pool resolve").start(this::resolve);
                    supervisor.rotateLogs();
                }
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
                return;
            } catch (IOException | RuntimeException failure) {
                warn("tick", config.id(), failure);
            }
        }
    }

    private void resolve() {
        try {
            registry.refresh();
        } catch (PoolException failure) {
            warn("resolve", config.id(), failure);
        }
    }

    public URI uri() {
        String host = server.address().getHostAddress();
        return URI.create("http://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + server.port());
    }

    /** Method and path of everything it answers. */
    public List<String> operations() {
        return routes.stream().map(route -> route.method() + " " + route.path()).toList();
    }

    /** Connections that are open, for whoever looks for a leak. */
    public int connections() {
        return server.connections();
    }

    /** Takes no new work, lets running work finish, ends its own workers, and ends; returns when that is done. */
    public void drain() {
        if (draining.compareAndSet(false, true)) {
            log.line(LogLevel.INFO, "pool", "drain", config.id()).log("shutting down: workers finish what they do");
            try {
                supervisor.drainAll();
                while (!supervisor.isDrained()) {
                    supervisor.await(TICK);
                }
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            } finally {
                server.close(LAST_WRITES);
                close();
            }
        }
        await();
    }

    /** Waits until the pool has ended. */
    public void await() {
        try {
            ended.await();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    /** Ends at once, and leaves workers running for the next pool to take over. */
    @Override
    public void close() {
        ticking = false;
        server.close();
        try {
            supervisor.close();
        } catch (IOException failure) {
            warn("close", config.id(), failure);
        }
        ended.countDown();
    }
}
