package dev.starforge.serve.pool;

import dev.starforge.serve.api.AccessControl;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Router;
import dev.starforge.serve.http.EssentialThread;
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
import dev.starforge.serve.pool.proxy.TenantNames;
import dev.starforge.serve.pool.proxy.WorkerConnector;
import dev.starforge.serve.pool.route.WorkerRouting;
import dev.starforge.serve.pool.start.OnDemandStarter;
import dev.starforge.serve.pool.start.WorkerPreflight;
import dev.starforge.serve.pool.start.WorkerStarter;
import dev.starforge.serve.pool.supervise.Supervisor;
import dev.starforge.serve.pool.supervise.SupervisorContext;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.PoolTimeouts;
import dev.starforge.serve.pool.worker.WorkerCommand;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Serves many workers behind one address. The pool loads no model and no backend: workers run in their own processes, whose failures
 * it survives. It adopts the workers of an earlier pool and serves until {@link #drain}.
 */
public final class Pool implements AutoCloseable {
    private static final Duration TICK = Duration.ofMillis(100);
    private static final Duration HEALTH_TIMEOUT = Duration.ofSeconds(2);
    private static final Duration CLOSE_GRACE = Duration.ofSeconds(2);
    private static final int MAX_REQUESTS = 2048;
    private static final HttpLimits LIMITS = HttpLimits.DEFAULT.withConnections(4096);

    private final PoolConfig config;
    private final PoolDependencies parts;
    private final EventLog log;
    private final Supervisor supervisor;
    private final WorkerStarter starter;
    private final OnDemandStarter onDemand;
    private final WorkerRegistry registry;
    private final List<ApiRoute> routes;
    private final HttpServer server;
    private final AtomicBoolean draining = new AtomicBoolean();
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile boolean ticking = true;

    private Pool(PoolConfig config, PoolDependencies parts, PoolKeys keys, EventLog log)
            throws IOException, InterruptedException {
        InetSocketAddress address = address(config.listen());
        checkAccess(config, keys, address.getAddress());
        this.config = config;
        this.parts = parts;
        this.log = log;
        PoolTimeouts timing = parts.timing();
        PoolMetrics metrics = new PoolMetrics();
        PoolEvents poolEvents = new PoolEvents(log, metrics, parts.clock());
        Executor checks = work -> Thread.ofVirtual().name("pool check").start(work);
        WorkerCommand command =
                new WorkerCommand(parts.program(), config.apiKeyFile().map(Path::toAbsolutePath), this::uri);
        WorkerConnector connector = new WorkerConnector(parts.random());
        HttpWorkerClient client = new HttpWorkerClient(connector, HEALTH_TIMEOUT, timing.token());
        supervisor = new Supervisor(new SupervisorContext(
                config.state(),
                parts.launcher(),
                client,
                command,
                timing,
                config.restart(),
                parts.nanos(),
                parts.clock(),
                parts.random(),
                checks,
                poolEvents));
        try {
            starter = new WorkerStarter(
                    config,
                    new DeviceDiscovery(parts.commands(), parts.program()),
                    new WorkerPreflight(parts.commands(), parts.program()),
                    supervisor,
                    timing);
            registry = new WorkerRegistry(supervisor, parts.resolver());
            WorkerRouting routing = new WorkerRouting();
            onDemand = new OnDemandStarter(config, supervisor, starter, timing);
            boolean callersAreAdmins = config.localAdmin() || !keys.admins().isEmpty();
            List<ApiRoute> all = new ArrayList<>();
            all.addAll(
                    new PoolRoutes(config, supervisor, starter, routing, metrics, poolEvents, parts.clock()).routes());
            all.addAll(new WorkerRoutes(supervisor, starter, registry, callersAreAdmins).routes());
            Relay relay = new Relay(onDemand, connector, new TenantNames(parts.random()), routing, metrics);
            all.addAll(relay.routes());
            all.addAll(PageRoutes.ofPool().routes());
            routes = List.copyOf(all);
            boolean clientsAreAdmins = config.localAdmin() || keys.all().isEmpty(); // it serves this machine alone
            AccessControl access =
                    new AccessControl(keys.clients(), keys.admins(), clientsAreAdmins, supervisor::isCallbackKey);
            Router router = new Router(routes, access, MAX_REQUESTS, log, this::id, Router.RejectionCounter.UNCOUNTED);
            server = HttpServer.start(address, router, LIMITS, parts.clock());
        } catch (IOException | InterruptedException | RuntimeException failure) {
            supervisor.close();
            throw failure;
        }
    }

    /**
     * Starts to listen, adopts running workers, and starts the configured ones.
     *
     * @param program the command line that starts this program, without a command; used to start workers
     * @param keys read from the key files of the config
     * @throws IOException if the port or the state folder is in use, or no device is found
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
        EssentialThread.start("pool tick", pool::tick);
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
            throw new IllegalArgumentException("listen: " + listen + ": unknown host");
        }
        return address;
    }

    private static void checkAccess(PoolConfig config, PoolKeys keys, InetAddress address) {
        AccessControl.checkAddress(address, keys.clients());
        if (config.localAdmin() && !address.isLoopbackAddress()) {
            throw new IllegalArgumentException("pool.local_admin: expected a loopback address to listen on, got "
                    + config.listen() + "; other machines need admin_key_file");
        }
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
            if (entry.autostart()) {
                try {
                    onDemand.start(entry.name());
                } catch (RuntimeException failure) {
                    warn("autostart", entry.name(), failure);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    return;
                }
            }
        }
    }

    private void probe() {
        try {
            starter.probe();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return;
        }
        starter.deployment()
                .ifPresent(here -> log.line(LogLevel.INFO, "pool", "deploy", config.id())
                        .log("default device of workers: " + here.text()));
    }

    private void warn(String action, String target, Exception failure) {
        log.line(LogLevel.WARN, "pool", action, target)
                .with("error_kind", failure.getClass().getSimpleName())
                .log(action + " " + target + " failed: " + failure.getMessage());
    }

    /** Supervises until {@link #close}; failures are logged. An error, such as a full heap, ends the process. */
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
            } catch (InterruptedException e) {
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
        } catch (RuntimeException failure) {
            warn("resolve", config.id(), failure);
        }
    }

    public URI uri() {
        String host = server.address().getHostAddress();
        return URI.create("http://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + server.port());
    }

    /** Method and path of each route. */
    public List<String> operations() {
        return routes.stream().map(route -> route.method() + " " + route.path()).toList();
    }

    /** Number of open connections. */
    public int connections() {
        return server.connections();
    }

    /** Rejects new requests, stops the workers that it started, and stops; returns when stopped. */
    public void drain() {
        if (draining.compareAndSet(false, true)) {
            log.line(LogLevel.INFO, "pool", "drain", config.id()).log("draining: workers finish their requests");
            try {
                supervisor.drainAll();
                while (!supervisor.isDrained()) {
                    supervisor.await(TICK);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } finally {
                server.close(CLOSE_GRACE);
                close();
            }
        }
        await();
    }

    /** Waits until the pool has stopped. */
    public void await() {
        try {
            ended.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Stops at once; workers keep running and can be adopted by the next pool. */
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
