package dev.starforge.serve.pool.proxy;

import dev.starforge.serve.pool.worker.WorkerClient;
import dev.starforge.serve.pool.worker.WorkerHealth;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/** Calls workers over HTTP. */
public final class HttpWorkerClient implements WorkerClient {
    private final Duration timeout;
    private final Duration canaryTimeout;

    /** @param canaryTimeout for requests that generate a token */
    public HttpWorkerClient(Duration timeout, Duration canaryTimeout) {
        this.timeout = timeout;
        this.canaryTimeout = canaryTimeout;
    }

    @Override
    public WorkerHealth health(URI worker) throws IOException {
        try {
            JsonNode node = Jackson.JSON.readTree(send(worker, "GET", "/health", "", timeout));
            return new WorkerHealth(
                    node.path("status").asString(""),
                    node.path("worker_id").asString(""),
                    node.path("model").asString(""),
                    node.path("device").asString(""),
                    node.path("memory_bytes").longValue(0),
                    node.path("running").longValue(0) + node.path("waiting").longValue(0),
                    strings(node.path("capabilities")),
                    strings(node.path("adapters")));
        } catch (JacksonException e) {
            throw new IOException("health: expected JSON from " + worker, e);
        }
    }

    private static List<String> strings(JsonNode list) {
        return list.valueStream().map(JsonNode::asString).toList();
    }

    @Override
    public void canary(URI worker, String key) throws IOException {
        send(worker, "GET", "/health/deep", key, canaryTimeout);
    }

    @Override
    public void shutdown(URI worker, String key) throws IOException {
        send(worker, "POST", "/shutdown", key, timeout);
    }

    private static byte[] send(URI worker, String method, String path, String key, Duration time) throws IOException {
        try (WorkerConnection connection = WorkerConnection.open(worker).withTimeout(time)) {
            Map<String, String> headers = key.isEmpty() ? Map.of() : Map.of("Authorization", "Bearer " + key);
            connection.send(method, path, headers, new byte[0]);
            WorkerConnection.ResponseHead response = connection.readHead();
            byte[] body = connection.readBody(response);
            if (response.status() / 100 != 2) {
                throw new IOException(path + ": expected success from " + worker + ", got " + response.status());
            }
            return body;
        } catch (SocketTimeoutException e) {
            throw new IOException(path + ": no response from " + worker + " within " + time.toMillis() + " ms", e);
        }
    }
}
