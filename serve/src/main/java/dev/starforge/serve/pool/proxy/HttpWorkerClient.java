package dev.starforge.serve.pool.proxy;

import dev.starforge.serve.pool.supervise.WorkerClient;
import dev.starforge.serve.pool.supervise.WorkerHealth;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/** Asks workers over HTTP. */
public final class HttpWorkerClient implements WorkerClient {
    private final Duration patience;
    private final Duration token;

    /**
     * @param patience for what a worker answers from memory
     * @param token for what it computes
     */
    public HttpWorkerClient(Duration patience, Duration token) {
        this.patience = patience;
        this.token = token;
    }

    @Override
    public WorkerHealth health(URI worker) throws IOException {
        try {
            JsonNode node = Jackson.JSON.readTree(ask(worker, "GET", "/health", "", patience));
            return new WorkerHealth(
                    node.path("status").asString(""),
                    node.path("worker_id").asString(""),
                    node.path("model").asString(""),
                    node.path("device").asString(""),
                    node.path("memory_bytes").longValue(0),
                    node.path("running").longValue(0) + node.path("waiting").longValue(0),
                    strings(node.path("capabilities")),
                    strings(node.path("adapters")));
        } catch (JacksonException noJson) {
            throw new IOException("health: expected JSON from " + worker, noJson);
        }
    }

    private static List<String> strings(JsonNode list) {
        return list.valueStream().map(JsonNode::asString).toList();
    }

    @Override
    public void canary(URI worker, String key) throws IOException {
        ask(worker, "GET", "/health/deep", key, token);
    }

    @Override
    public void shutdown(URI worker, String key) throws IOException {
        ask(worker, "POST", "/shutdown", key, patience);
    }

    private static byte[] ask(URI worker, String method, String path, String key, Duration time) throws IOException {
        try (Upstream upstream = Upstream.open(worker).withTimeout(time)) {
            upstream.send(
                    method, path, key.isEmpty() ? Map.of() : Map.of("Authorization", "Bearer " + key), new byte[0]);
            Upstream.Begun begun = upstream.begin();
            byte[] body = upstream.whole(begun);
            if (begun.status() / 100 != 2) {
                throw new IOException(path + ": expected success from " + worker + ", got " + begun.status());
            }
            return body;
        } catch (SocketTimeoutException late) {
            throw new IOException(path + ": no answer from " + worker + " within " + time.toMillis() + " ms", late);
        }
    }
}
