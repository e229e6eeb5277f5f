package dev.starforge.serve.pool.api;

import dev.starforge.data.Jackson;
import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Fields;
import dev.starforge.serve.api.InvalidRequest;
import dev.starforge.serve.api.Route;
import dev.starforge.serve.api.Route.Weight;
import dev.starforge.serve.pool.config.RemoteEntry;
import dev.starforge.serve.pool.supervise.ErrorCode;
import dev.starforge.serve.pool.supervise.PoolFailure;
import dev.starforge.serve.pool.supervise.Starter;
import dev.starforge.serve.pool.supervise.Supervisor;
import dev.starforge.serve.pool.supervise.WorkerCommand;
import dev.starforge.serve.pool.supervise.WorkerSpec;
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

/** What can be done with workers, and what they themselves report. */
public final class WorkerRoutes {
    private static final int LONGEST = 4096;
    private static final String WORKERS = "/v2/workers/";

    private final Supervisor supervisor;
    private final Starter starter;
    private final Registry registry;

    public WorkerRoutes(Supervisor supervisor, Starter starter, Registry registry) {
        this.supervisor = supervisor;
        this.starter = starter;
        this.registry = registry;
    }

    public List<Route> routes() {
        return List.of(
                route("/v2/workers/start", Weight.ADMIN, this::start),
                route("/v2/workers/register", Weight.ADMIN, this::register),
                route(WorkerCommand.READY_PATH, Weight.CONTROL, this::ready),
                route("/v2/workers/{id}", Weight.ADMIN, this::change));
    }

    private static Route route(String path, Weight weight, Route.Action action) {
        return new Route("POST", path, Api.NATIVE, weight, PoolRoutes.answering(action));
    }

    private void start(Call call) throws IOException, InterruptedException {
        Fields fields = call.fields();
        String model = fields.requireText("model_ref", LONGEST);
        String device = fields.text("device", "");
        String type = fields.text("worker_type", WorkerSpec.TYPE);
        if (!type.equals(WorkerSpec.TYPE)) {
            fields.violate("worker_type", WorkerSpec.TYPE);
        }
        Map<String, Path> adapters = adapters(fields);
        fields.refuseOthers();
        fields.check();
        String id = starter.start(new Starter.Wanted(model, device, adapters, Optional.empty()));
        call.respond(202, Jackson.object().put("worker_id", id).put("status", "STARTING"));
    }

    private static Map<String, Path> adapters(Fields fields) {
        Map<String, Path> adapters = new LinkedHashMap<>();
        JsonNode node = fields.node("adapters");
        if (!node.isMissingNode() && !node.isObject()) {
            fields.violate("adapters", "an object of names and folders");
        }
        for (Map.Entry<String, JsonNode> each : node.properties()) {
            try {
                adapters.put(each.getKey(), Path.of(each.getValue().stringValue()));
            } catch (InvalidPathException | JsonNodeException unusable) {
                fields.violate("adapters", "an object of names and folders");
            }
        }
        return adapters;
    }

    private void register(Call call) throws IOException {
        Fields fields = call.fields();
        String uri = fields.requireText("uri", LONGEST);
        String keys = fields.text("api_key_file", "");
        fields.refuseOthers();
        fields.check();
        try {
            RemoteEntry entry =
                    new RemoteEntry(URI.create(uri), keys.isEmpty() ? Optional.empty() : Optional.of(Path.of(keys)));
            List<String> ids = registry.register(entry);
            ObjectNode body = Jackson.object().put("worker_id", ids.getFirst());
            ids.forEach(body.putArray("worker_ids")::add);
            call.respond(201, body);
        } catch (IllegalArgumentException unusable) {
            throw InvalidRequest.of("uri", "http://HOST:PORT");
        }
    }

    /** {@code POST /v2/workers/{id}/stop}, drain or reload. */
    private void change(Call call) throws IOException, InterruptedException {
        int slash = call.rest().lastIndexOf('/');
        String id = call.rest().substring(0, Math.max(0, slash));
        ObjectNode body = Jackson.object().put("worker_id", id);
        switch (call.rest().substring(slash + 1)) {
            case "stop" -> supervisor.stop(id);
            case "drain" -> supervisor.drain(id);
            case "reload" -> body.put("replaced_by", starter.replace(id));
            default ->
                throw new PoolFailure(
                        ErrorCode.WORKER_NOT_FOUND, false, "expected " + WORKERS + "ID/stop, drain or reload");
        }
        call.respond(202, body);
    }

    /** The callback of a worker of ours, which is on this machine. */
    private void ready(Call call) throws IOException {
        Fields fields = call.fields();
        String id = fields.requireText("worker_id", LONGEST);
        String uri = fields.requireText("uri", LONGEST);
        fields.check();
        String start = call.head().query().replaceFirst("^start=", "");
        supervisor.calledBack(id, start, local(uri));
        call.respond(200, Jackson.object().put("status", "accepted"));
    }

    private static URI local(String text) {
        try {
            URI uri = URI.create(text);
            if ("http".equals(uri.getScheme())
                    && uri.getHost() != null
                    && uri.getPort() > 0
                    && InetAddress.getByName(uri.getHost()).isLoopbackAddress()) {
                return uri;
            }
        } catch (IllegalArgumentException | UnknownHostException unusable) {
            throw InvalidRequest.of("uri", "http://127.0.0.1:PORT");
        }
        throw InvalidRequest.of("uri", "http://127.0.0.1:PORT");
    }
}
