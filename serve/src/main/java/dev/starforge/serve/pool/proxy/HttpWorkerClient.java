package dev.starforge.serve.pool.proxy;

import dev.starforge.serve.pool.worker.WorkerClient;
import dev.starforge.serve.pool.worker.WorkerEndpoint;
import dev.starforge.serve.pool.worker.WorkerHealth;
import dev.starforge.serve.pool.worker.WorkerOverloadedException;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/** Calls workers over HTTP. */
public final class HttpWorkerClient implements WorkerClient {
    private final WorkerConnector connector;
    private final Duration timeout;
    private final Duration canaryTimeout;

    /**
     * @param timeout of a whole request, however slowly its response arrives
     * @param canaryTimeout for requests that generate a token
     */
    public HttpWorkerClient(WorkerConnector connector, Duration timeout, Duration canaryTimeout) {
        this.connector = connector;
        this.timeout = timeout;
        this.canaryTimeout = canaryTimeout;
    }

    @Override
    public WorkerHealth health(WorkerEndpoint worker) throws IOException {
        try {
            JsonNode node = connector.health(worker, timeout);
            return new WorkerHealth(
                    node.path("status").asString(""),
                    node.path("worker_id").asString(""),
                    node.path("model").asString(""),
                    strings(node.path("models")),
                    node.path("device").asString(""),
                    node.path("memory_bytes").longValue(0),
                    node.path("running").longValue(0) + node.path("waiting").longValue(0),
                    node.path("tokens_generated").longValue(0),
                    strings(node.path("capabilities")),
                    strings(node.path("adapters")));
        } catch (WorkerOverloadedException e) {
            throw e;
        } catch (IOException e) {
            throw failure("/health", worker, timeout, e);
        }
    }

    private static List<String> strings(JsonNode list) {
        return list.valueStream()
                .filter(JsonNode::isString)
                .map(JsonNode::stringValue)
                .toList();
    }

    @Override
    public void canary(WorkerEndpoint worker) throws IOException {
        send(worker, "GET", "/health/deep", canaryTimeout);
    }

    @Override
    public void shutdown(WorkerEndpoint worker) throws IOException {
        send(worker, "POST", "/shutdown", timeout);
    }

    private void send(WorkerEndpoint worker, String method, String path, Duration time) throws IOException {
        try (WorkerConnection connection = connector.connect(worker, timeout).withDeadline(time)) {
            Map<String, String> headers =
                    worker.key().isEmpty() ? Map.of() : Map.of("Authorization", "Bearer " + worker.key());
            connection.send(method, path, headers, new byte[0], true);
            ResponseHead response = connection.readHead();
            byte[] body = connection.readBody(response, WorkerConnection.MAX_HEALTH);
            if (isOverload(response.status(), body)) {
                throw new WorkerOverloadedException(path + ": the worker is overloaded: status " + response.status());
            }
            if (response.status() / 100 != 2) {
                throw new IOException("expected success, got status " + response.status()
                        + (response.status() == 401
                                ? "; it needs another key than the pool sends (api_key_file)"
                                : ""));
            }
        } catch (WorkerOverloadedException e) {
            throw e;
        } catch (IOException e) {
            throw failure(path, worker, time, e);
        }
    }

    /** Returns true for a limit of requests or connections; other reasons for 503 are failures of the engine. */
    private static boolean isOverload(int status, byte[] body) {
        if (status != 503) {
            return status == 429;
        }
        try {
            return Jackson.JSON
                    .readTree(body)
                    .path("error")
                    .path("code")
                    .asString("")
                    .startsWith("too_many_");
        } catch (JacksonException e) {
            return false;
        }
    }

    private static IOException failure(String path, WorkerEndpoint worker, Duration time, IOException cause) {
        String what = cause instanceof SocketTimeoutException
                ? "no response from " + worker + " within " + time.toMillis() + " ms"
                : worker + ": " + cause.getMessage();
        return new IOException(path + ": " + what, cause);
    }
}
