package dev.starforge.serve.pool.proxy;

import dev.starforge.serve.pool.worker.WorkerClient;
import dev.starforge.serve.pool.worker.WorkerHealth;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/** Calls workers over HTTP. */
public final class HttpWorkerClient implements WorkerClient, AutoCloseable {
    private static final int MAX_BODY = 1 << 20;

    private final HttpClient client = WorkerRequest.client();
    private final Duration timeout;
    private final Duration canaryTimeout;

    /** @param canaryTimeout for requests that generate a token */
    public HttpWorkerClient(Duration timeout, Duration canaryTimeout) {
        this.timeout = timeout;
        this.canaryTimeout = canaryTimeout;
    }

    @Override
    public WorkerHealth health(URI worker) throws IOException, InterruptedException {
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
    public void canary(URI worker, String key) throws IOException, InterruptedException {
        send(worker, "GET", "/health/deep", key, canaryTimeout);
    }

    @Override
    public void shutdown(URI worker, String key) throws IOException, InterruptedException {
        send(worker, "POST", "/shutdown", key, timeout);
    }

    private byte[] send(URI worker, String method, String path, String key, Duration time)
            throws IOException, InterruptedException {
        HttpRequest.Builder builder =
                HttpRequest.newBuilder(worker.resolve(path)).method(method, BodyPublishers.noBody());
        if (!key.isEmpty()) {
            builder.header("Authorization", "Bearer " + key);
        }
        CompletableFuture<HttpResponse<byte[]>> pending =
                client.sendAsync(builder.build(), BodyHandlers.limiting(BodyHandlers.ofByteArray(), MAX_BODY));
        try {
            HttpResponse<byte[]> response = pending.get(time.toNanos(), TimeUnit.NANOSECONDS);
            if (response.statusCode() / 100 != 2) {
                throw new IOException(path + ": expected success from " + worker + ", got " + response.statusCode());
            }
            return response.body();
        } catch (TimeoutException e) {
            throw new IOException(path + ": no response from " + worker + " within " + time.toMillis() + " ms", e);
        } catch (ExecutionException e) {
            throw new IOException(path + ": no response from " + worker + ": " + e.getCause(), e);
        } finally {
            pending.cancel(true);
        }
    }

    @Override
    public void close() {
        client.shutdownNow();
    }
}
