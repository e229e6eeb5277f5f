package dev.starforge.serve.pool.proxy;

import java.io.IOException;
import java.io.InputStream;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;

/**
 * One request to a worker. {@link #close}, from any thread, cancels it and closes its connection, so that the worker stops
 * generating. The JDK's client retries only GET and HEAD: a POST is sent at most once.
 */
final class WorkerRequest implements AutoCloseable {
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(2);
    private static final int MAX_BODY = 64 << 20;

    private final CompletableFuture<HttpResponse<InputStream>> response;

    private WorkerRequest(CompletableFuture<HttpResponse<InputStream>> response) {
        this.response = response;
    }

    /** A client for requests to workers: HTTP/1.1 without TLS. */
    static HttpClient client() {
        return HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(CONNECT_TIMEOUT)
                .executor(Executors.newVirtualThreadPerTaskExecutor())
                .build();
    }

    static WorkerRequest send(HttpClient client, HttpRequest request) {
        return new WorkerRequest(client.sendAsync(request, BodyHandlers.ofInputStream()));
    }

    /** Waits for the status and headers. */
    HttpResponse<InputStream> response() throws IOException {
        try {
            return response.get();
        } catch (ExecutionException e) {
            throw new IOException(String.valueOf(e.getCause()), e);
        } catch (CancellationException e) {
            throw new IOException("the request was cancelled", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", e);
        }
    }

    static Optional<String> header(HttpResponse<?> response, String name) {
        return response.headers().firstValue(name);
    }

    static boolean isEventStream(HttpResponse<?> response) {
        return contentType(response).startsWith("text/event-stream");
    }

    static String contentType(HttpResponse<?> response) {
        return header(response, "content-type").orElse("application/octet-stream");
    }

    /** Reads a whole body. */
    static byte[] body(HttpResponse<InputStream> response) throws IOException {
        byte[] bytes = response.body().readNBytes(MAX_BODY + 1);
        if (bytes.length > MAX_BODY) {
            throw new IOException("worker: expected a response of at most " + MAX_BODY + " bytes");
        }
        return bytes;
    }

    @Override
    public void close() {
        if (!response.cancel(true) && !response.isCompletedExceptionally()) {
            try {
                response.join().body().close();
            } catch (IOException e) {
                // nothing more to do
            }
        }
    }
}
