package dev.starforge.serve.pool.api;

import dev.starforge.serve.api.AccessControl;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Auth;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.api.InvalidRequestException;
import dev.starforge.serve.api.RequestFields;
import dev.starforge.serve.pool.config.RemoteEntry;
import dev.starforge.serve.pool.start.WorkerStarter;
import dev.starforge.serve.pool.supervise.Supervisor;
import dev.starforge.serve.pool.worker.PoolError;
import dev.starforge.serve.pool.worker.PoolException;
import dev.starforge.serve.pool.worker.WorkerCommand;
import dev.starforge.serve.pool.worker.WorkerSpec;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.exc.JsonNodeException;
import tools.jackson.databind.node.ObjectNode;

/** Starts, registers, stops, drains and reloads workers, and receives their ready callbacks. */
public final class WorkerRoutes {
    private static final int MAX_LENGTH = 4096;
    private static final String WORKERS = "/v2/workers/";

    private final Supervisor supervisor;
    private final WorkerStarter starter;
    private final WorkerRegistry registry;
    private final boolean callersAreAdmins;

    /**
     * @param callersAreAdmins whether callers of admin routes have proved, or were declared, to be admins; the others may only use the
     *     models of the config
     */
    public WorkerRoutes(
            Supervisor supervisor, WorkerStarter starter, WorkerRegistry registry, boolean callersAreAdmins) {
        this.supervisor = supervisor;
        this.starter = starter;
        this.registry = registry;
        this.callersAreAdmins = callersAreAdmins;
    }

    public List<ApiRoute> routes() {
        return List.of(
                route("/v2/workers/start", Auth.ADMIN, this::start),
                route("/v2/workers/register", Auth.ADMIN, this::register),
                route(WorkerCommand.READY_PATH, Auth.WORKER, this::ready),
                route("/v2/workers/{id}", Auth.ADMIN, this::change));
    }

    private static ApiRoute route(String path, Auth auth, ApiRoute.RouteAction action) {
        return new ApiRoute("POST", path, Api.NATIVE, Execution.BLOCKING, auth, PoolRoutes.answering(action));
    }

    private void start(Call call) throws IOException, InterruptedException {
        RequestFields fields = call.fields();
        String model = fields.requireString("model_ref", MAX_LENGTH);
        String device = fields.string("device", "");
        String type = fields.string("worker_type", WorkerSpec.TYPE);
        if (!type.equals(WorkerSpec.TYPE)) {
            fields.violate("worker_type", WorkerSpec.TYPE);
        }
        Map<String, Path> adapters = adapters(fields);
        fields.rejectUnknown();
        fields.check();
        if (!callersAreAdmins && (!starter.isConfigured(model) || !adapters.isEmpty())) {
            throw AccessControl.adminKeyRequired("starting a path, or adapters, requires admin_key_file in the pool's"
                    + " config (or local_admin: true); the models of the config can be started by their names");
        }
        String id = starter.start(new WorkerStarter.StartRequest(model, device, adapters, Optional.empty()));
        call.respond(202, Jackson.object().put("worker_id", id).put("status", "STARTING"));
    }

    private static Map<String, Path> adapters(RequestFields fields) {
        Map<String, Path> adapters = new LinkedHashMap<>();
        JsonNode node = fields.node("adapters");
        if (!node.isMissingNode() && !node.isObject()) {
            fields.violate("adapters", "an object of adapter names and folders");
        }
        for (Map.Entry<String, JsonNode> each : node.properties()) {
            try {
                adapters.put(each.getKey(), Path.of(each.getValue().stringValue()));
            } catch (InvalidPathException | JsonNodeException unusable) {
                fields.violate("adapters", "an object of adapter names and folders");
            }
        }
        return adapters;
    }

    /** A registered worker gets the requests of clients: only an admin may say who does. The keys of workers are in the config alone. */
    private void register(Call call) throws IOException {
        if (!callersAreAdmins) {
            throw AccessControl.adminKeyRequired(
                    "registering workers requires admin_key_file in the pool's config, or on"
                            + " a loopback address local_admin: true");
        }
        RequestFields fields = call.fields();
        String uri = fields.requireString("uri", MAX_LENGTH);
        fields.rejectUnknown();
        fields.check();
        List<String> ids = registry.register(entry(uri));
        ObjectNode body = Jackson.object().put("worker_id", ids.getFirst());
        ids.forEach(body.putArray("worker_ids")::add);
        call.respond(201, body);
    }

    private static RemoteEntry entry(String uri) {
        try {
            return new RemoteEntry(URI.create(uri), Optional.empty());
        } catch (IllegalArgumentException unusable) {
            throw InvalidRequestException.of("uri", RemoteEntry.FORM);
        }
    }

    /** {@code POST /v2/workers/{id}/stop}, drain or reload. */
    private void change(Call call) throws IOException, InterruptedException {
        int slash = call.pathParameter().lastIndexOf('/');
        String id = call.pathParameter().substring(0, Math.max(0, slash));
        ObjectNode body = Jackson.object().put("worker_id", id);
        switch (call.pathParameter().substring(slash + 1)) {
            case "stop" -> supervisor.stop(id);
            case "drain" -> supervisor.drain(id);
            case "reload" -> body.put("replaced_by", starter.replace(id));
            default ->
                throw new PoolException(
                        PoolError.WORKER_NOT_FOUND, false, "expected " + WORKERS + "ID/stop, drain or reload");
        }
        call.respond(202, body);
    }

    /** The ready callback of a worker that this pool started, on this machine. */
    private void ready(Call call) throws IOException {
        RequestFields fields = call.fields();
        String id = fields.requireString("worker_id", MAX_LENGTH);
        String uri = fields.requireString("uri", MAX_LENGTH);
        fields.check();
        supervisor.calledBack(id, AccessControl.bearer(call.head()), local(uri));
        call.respond(200, Jackson.object().put("status", "accepted"));
    }

    private static URI local(String text) {
        try {
            URI uri = new RemoteEntry(URI.create(text), Optional.empty()).uri();
            if (InetAddress.getByName(uri.getHost()).isLoopbackAddress()) {
                return uri;
            }
        } catch (IllegalArgumentException | UnknownHostException unusable) {
            throw InvalidRequestException.of("uri", "http://127.0.0.1:PORT");
        }
        throw InvalidRequestException.of("uri", "http://127.0.0.1:PORT");
    }
}
