package dev.starforge.serve;

import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import tools.jackson.databind.node.ObjectNode;

/**
 * Tells whoever started a worker that it is ready. The body begins with the three fields of the first protocol, {@code
 * worker_id}, {@code vram_bytes} and {@code uri}, so that an old listener finds them.
 */
public final class Callback {
    /** A listener at this address is the test mode of the first protocol: nobody is called. */
    private static final String TEST_MODE = "localhost:9999";

    private static final int ATTEMPTS = 6;
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private final URI listener;
    private final String key;
    private final Duration firstPause;

    /**
     * @param key of the worker, which whoever started it gave it; empty without
     * @param firstPause after the first failure; each next one is twice as long
     */
    public Callback(URI listener, String key, Duration firstPause) {
        this.listener = listener;
        this.key = key;
        this.firstPause = firstPause;
    }

    /**
     * What a listener is told.
     *
     * @param memoryArchitecture {@code vram-only}, {@code unified} or {@code system}
     * @param status {@code pre-release} for a backend that no real machine has confirmed
     */
    public record Ready(
            String workerId,
            String modelRef,
            long memoryBytes,
            String memoryArchitecture,
            URI uri,
            String workerType,
            List<String> capabilities,
            String device,
            String backend,
            String status) {
        ObjectNode json() {
            ObjectNode body = Jackson.object();
            body.put("worker_id", workerId);
            body.put("vram_bytes", memoryBytes);
            body.put("uri", uri.toString());
            body.put("model_ref", modelRef);
            body.put("memory_bytes", memoryBytes);
            body.put("memory_architecture", memoryArchitecture);
            body.put("worker_type", workerType);
            capabilities.forEach(body.putArray("capabilities")::add);
            body.put("device", device);
            body.put("backend", backend);
            return body.put("status", status);
        }
    }

    /**
     * Where a listener finds a worker. One that listens on every address has none of its own: then it is the one that this
     * machine would speak to the listener from.
     */
    public static URI reachable(URI worker, URI listener) throws IOException {
        if (!InetAddress.getByName(worker.getHost()).isAnyLocalAddress()) {
            return worker;
        }
        try (DatagramSocket route = new DatagramSocket()) {
            route.connect(new InetSocketAddress(listener.getHost(), listener.getPort() < 0 ? 80 : listener.getPort()));
            String address = route.getLocalAddress().getHostAddress();
            return URI.create(
                    "http://" + (address.contains(":") ? "[" + address + "]" : address) + ":" + worker.getPort());
        }
    }

    /** Sends the callback; retries until a response has a 2xx status. */
    public void send(Ready ready) throws IOException, InterruptedException {
        if (listener.toString().contains(TEST_MODE)) {
            return;
        }
        String last = "";
        try (HttpClient client = HttpClient.newBuilder().connectTimeout(TIMEOUT).build()) {
            HttpRequest.Builder builder = HttpRequest.newBuilder(listener)
                    .timeout(TIMEOUT)
                    .header("Content-Type", "application/json")
                    .POST(BodyPublishers.ofString(ready.json().toString()));
            HttpRequest request = key.isEmpty()
                    ? builder.build()
                    : builder.header("Authorization", "Bearer " + key).build();
            for (int i = 0; i < ATTEMPTS; i++) {
                if (i > 0) {
                    Thread.sleep(firstPause.multipliedBy(1L << (i - 1)));
                }
                try {
                    HttpResponse<Void> response = client.send(request, BodyHandlers.discarding());
                    if (response.statusCode() / 100 == 2) {
                        return;
                    }
                    last = "got status " + response.statusCode();
                } catch (IOException e) {
                    last = e.toString();
                }
            }
        }
        throw new IOException(
                "callback: expected success from " + listener + " within " + ATTEMPTS + " attempts, but " + last);
    }
}
