package dev.starforge.serve;

import dev.starforge.text.ErrorMessage;
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
 * Notifies a URL when the worker is ready. The body begins with the three fields of the first protocol, {@code worker_id}, {@code
 * vram_bytes} and {@code uri}, for old listeners.
 */
public final class Callback {
    /** A URL with this address is the test mode of the first protocol: no callback is sent. */
    private static final String TEST_MODE = "localhost:9999";

    private static final int ATTEMPTS = 6;
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private final URI listener;
    private final String key;
    private final Duration firstPause;

    /**
     * @param key sent with the callback, see {@link WorkerOptions#callbackKey}; empty for none
     * @param firstPause pause after the first failure; doubles with each failure
     */
    public Callback(URI listener, String key, Duration firstPause) {
        this.listener = listener;
        this.key = key;
        this.firstPause = firstPause;
    }

    /**
     * The body of a callback.
     *
     * @param memoryArchitecture {@code vram-only}, {@code unified} or {@code system}
     * @param status {@code pre-release} for a backend that was never tested on real hardware
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
     * The URL at which a listener reaches a worker. For a worker that listens on the wildcard address, it has the local address of the
     * route to the listener.
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
                    last = ErrorMessage.of(e);
                }
            }
        }
        throw new IOException(
                "callback: expected success from " + listener + " within " + ATTEMPTS + " attempts, but " + last);
    }
}
