package dev.starforge.serve.pool.api;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.ApiRoute.RouteAction;
import dev.starforge.serve.api.Auth;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.metrics.Exposition;
import dev.starforge.serve.pool.config.ModelEntry;
import dev.starforge.serve.pool.config.PoolConfig;
import dev.starforge.serve.pool.device.PoolDevice;
import dev.starforge.serve.pool.route.WorkerRouting;
import dev.starforge.serve.pool.start.WorkerStarter;
import dev.starforge.serve.pool.supervise.Supervisor;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.WorkerFailure;
import dev.starforge.serve.pool.worker.WorkerState;
import dev.starforge.serve.pool.worker.WorkerView;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Health, readiness, metrics, state and events of a pool. */
public final class PoolRoutes {
    private static final long HEARTBEAT_SECONDS = 15;

    private final PoolConfig config;
    private final Supervisor supervisor;
    private final WorkerStarter starter;
    private final WorkerRouting routing;
    private final PoolMetrics metrics;
    private final PoolEvents poolEvents;
    private final Clock clock;

    public PoolRoutes(
            PoolConfig config,
            Supervisor supervisor,
            WorkerStarter starter,
            WorkerRouting routing,
            PoolMetrics metrics,
            PoolEvents poolEvents,
            Clock clock) {
        this.config = config;
        this.supervisor = supervisor;
        this.starter = starter;
        this.routing = routing;
        this.metrics = metrics;
        this.poolEvents = poolEvents;
        this.clock = clock;
    }

    public List<ApiRoute> routes() {
        return List.of(
                new ApiRoute("GET", "/health", Api.NATIVE, Execution.INLINE, Auth.PUBLIC, this::health),
                new ApiRoute("GET", "/ready", Api.NATIVE, Execution.INLINE, this::ready),
                new ApiRoute("GET", "/metrics", Api.NATIVE, Execution.INLINE, this::metrics),
                new ApiRoute("GET", "/v1/models", Api.OPENAI, Execution.INLINE, this::models),
                new ApiRoute("GET", "/v2/state", Api.NATIVE, Execution.INLINE, this::state),
                new ApiRoute("GET", "/v2/events", Api.NATIVE, Execution.RELAY, this::events));
    }

    private void health(Call call) throws IOException {
        call.respond(
                200,
                Jackson.object()
                        .put("status", supervisor.isDraining() ? "draining" : "ok")
                        .put("pool_id", config.id()));
    }

    /** Ready if a worker is ready, or can be started on demand. */
    private void ready(Call call) throws IOException {
        boolean serves = supervisor.views().stream()
                .anyMatch(view -> view.state() == WorkerState.READY || view.state() == WorkerState.BUSY);
        boolean ready = !supervisor.isDraining() && (serves || !config.models().isEmpty());
        call.respond(ready ? 200 : 503, Jackson.object().put("status", ready ? "ready" : "not ready"));
    }

    private void metrics(Call call) throws IOException {
        List<PoolDevice> devices = starter.found().devices();
        List<Long> allocated = devices.stream()
                .map(device -> supervisor.allocated(device.id()))
                .toList();
        String text = metrics.text(devices, allocated, supervisor.views(), routing);
        call.respond(200, Exposition.TYPE, text.getBytes(StandardCharsets.UTF_8));
    }

    private void models(Call call) throws IOException {
        ObjectNode body = Jackson.object().put("object", "list");
        ArrayNode data = body.putArray("data");
        Stream<String> configured = config.models().stream()
                .flatMap(entry -> Stream.concat(Stream.of(entry.name()), entry.adapters().keySet().stream()));
        Stream.concat(configured, supervisor.models().stream())
                .distinct()
                .forEach(name -> data.addObject()
                        .put("id", name)
                        .put("object", "model")
                        .put("created", clock.instant().getEpochSecond())
                        .put("owned_by", "starforge"));
        call.respond(200, body);
    }

    private void state(Call call) throws IOException {
        List<WorkerView> workers = supervisor.views();
        ObjectNode body = Jackson.object().put("pool_id", config.id());
        body.put("requests", metrics.running());
        ArrayNode devices = body.putArray("devices");
        for (PoolDevice device : starter.found().devices()) {
            ObjectNode node = devices.addObject()
                    .put("id", device.id())
                    .put("kind", device.kind().word())
                    .put("name", device.name())
                    .put("total", device.total())
                    .put("allocated", supervisor.allocated(device.id()))
                    .put("free", starter.free(device));
            ArrayNode own = node.putArray("workers");
            workers.stream()
                    .filter(view -> view.own() && view.device().equals(device.id()) && view.reserved() > 0)
                    .forEach(view -> own.add(view.id()));
        }
        starter.deployment().ifPresent(deployment -> body.set("deployment", deployment.json()));
        ArrayNode list = body.putArray("workers");
        workers.forEach(view -> list.add(worker(view)));
        ArrayNode models = body.putArray("models");
        for (ModelEntry entry : config.models()) {
            models.addObject().put("name", entry.name()).put("autostart", entry.autostart());
        }
        call.respond(200, body);
    }

    static ObjectNode worker(WorkerView view) {
        ObjectNode node = Jackson.object();
        node.put("id", view.id()).put("worker_type", view.own() ? "starforge" : "registered");
        ArrayNode capabilities = node.putArray("capabilities");
        view.capabilities().forEach(capabilities::add);
        node.put("model_ref", view.model()).put("device", view.device());
        node.put("memory_used", view.memoryUsed()).put("memory_reserved", view.reserved());
        node.put("uri", view.uri()).put("status", view.state().name());
        view.startedAt().ifPresent(start -> node.put("started_at", start.toString()));
        WorkerFailure failure = view.failure();
        node.put("restarts", view.restarts()).put("last_exit", failure.exit());
        node.put("reason", failure.reason()).put("requests", view.requests());
        failure.since().ifPresent(since -> node.put("failed_since", since.toString()));
        if (failure.isRetried()) {
            node.put("restart_in_s", failure.restartSeconds());
        }
        if (!failure.advice().isEmpty()) {
            node.put("advice", failure.advice());
        }
        ArrayNode adapters = node.putArray("adapters");
        view.adapters().forEach(adapters::add);
        return node;
    }

    /** Streams events, with a heartbeat. */
    private void events(Call call) throws IOException, InterruptedException {
        BlockingQueue<String> queue = poolEvents.hub().subscribe();
        Thread self = Thread.currentThread();
        call.onDisconnect(self::interrupt);
        try {
            Call.Events events = call.events();
            while (!supervisor.isDraining()) {
                String next = queue.poll(HEARTBEAT_SECONDS, TimeUnit.SECONDS);
                events.send(next == null ? "{\"type\":\"alive\"}" : next);
            }
            events.finish();
        } catch (InterruptedException e) {
            throw new IOException("the client disconnected", e);
        } finally {
            poolEvents.hub().unsubscribe(queue);
        }
    }

    /** Wraps an action so that its failures get the pool's error response. */
    static RouteAction answering(RouteAction action) {
        return call -> {
            try {
                action.answer(call);
            } catch (PoolException failure) {
                if (failure.isRetriable()) {
                    call.header("Retry-After", Long.toString(failure.retryAfter()));
                }
                call.respond(failure.code().status(), failure.json());
            }
        };
    }
}
