package dev.starforge.serve.pool.proxy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.serve.api.StartSecret;
import dev.starforge.serve.pool.worker.WorkerEndpoint;
import dev.starforge.serve.pool.worker.WorkerOverloadedException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The pool's own requests, to workers and to programs that took a worker's place. */
final class HttpWorkerClientTest {
    private static final StartSecret SECRET = StartSecret.of("0123456789abcdef");
    private static final String HEALTH = "{\"status\":\"ok\",\"worker_id\":\"w\",\"proof\":\"%s\"}";

    private final WorkerConnector connector = new WorkerConnector(new Random(1));

    private HttpWorkerClient client(Duration timeout) {
        return new HttpWorkerClient(connector, timeout, timeout);
    }

    private static String nonce(String request) {
        return request.replaceFirst("(?s).*nonce=([0-9a-f]{32}) .*", "$1");
    }

    /** The proof of a worker on the port to which the request was sent. */
    private static String proof(String request) {
        int port = Integer.parseInt(request.replaceFirst("(?s).*Host: 127.0.0.1:([0-9]+).*", "$1"));
        return SECRET.proof(nonce(request), port);
    }

    @Test
    void aWorkerProvesItsIdentityBeforeItGetsAnything() throws Exception {
        try (RawWorker worker =
                new RawWorker(request -> RawWorker.ok("application/json", HEALTH.formatted(proof(request))))) {
            WorkerEndpoint endpoint = WorkerEndpoint.managed(worker.uri(), SECRET);
            assertThat(client(Duration.ofSeconds(10)).health(endpoint).workerId())
                    .isEqualTo("w");
            assertThat(client(Duration.ofSeconds(10)).health(endpoint).isServing())
                    .isTrue();
            assertThat(worker.requests)
                    .hasSize(2)
                    .doesNotHaveDuplicates()
                    .allSatisfy(request ->
                            assertThat(request).doesNotContain("Authorization", SECRET.requestKey(), SECRET.text()));
        }
    }

    /** It answers with an earlier proof, with none, or with that of another secret. */
    @ParameterizedTest
    @CsvSource({"''", "00", "f00d"})
    void aProgramInTheWorkersPlaceGetsNeitherKeyNorPrompt(String proof) throws Exception {
        String answer = proof.equals("f00d")
                ? StartSecret.of("fedcba9876543210").proof("00000000000000000000000000000000", 1)
                : proof;
        try (RawWorker impostor = new RawWorker(_ -> RawWorker.ok("application/json", HEALTH.formatted(answer)))) {
            WorkerEndpoint endpoint = WorkerEndpoint.managed(impostor.uri(), SECRET);
            HttpWorkerClient client = client(Duration.ofSeconds(10));
            assertThatThrownBy(() -> client.health(endpoint)).hasMessageContaining("another program answered");
            assertThatThrownBy(() -> client.canary(endpoint)).hasMessageContaining("another program answered");
            assertThatThrownBy(() -> client.shutdown(endpoint)).hasMessageContaining("another program answered");
            assertThatThrownBy(() -> connector.connect(endpoint, Duration.ofSeconds(10)))
                    .as("as for a client's request")
                    .hasMessageContaining("another program answered");
            assertThat(impostor.requests)
                    .hasSize(4)
                    .allSatisfy(request ->
                            assertThat(request).startsWith("GET /health?nonce=").doesNotContain("Authorization"));
        }
    }

    /** A program asks the worker itself for the proof, on the worker's port. */
    @Test
    void theProofOfAWorkerOnAnotherPortIsNotAccepted() throws Exception {
        int workersPort = 1;
        try (RawWorker impostor = new RawWorker(request ->
                RawWorker.ok("application/json", HEALTH.formatted(SECRET.proof(nonce(request), workersPort))))) {
            WorkerEndpoint endpoint = WorkerEndpoint.managed(impostor.uri(), SECRET);
            assertThatThrownBy(() -> client(Duration.ofSeconds(10)).health(endpoint))
                    .hasMessageContaining("another program answered");
        }
    }

    /** A server without a free connection may still report its health, on one that takes nothing else. */
    @Test
    void aWorkerThatOnlyReportsItsHealthIsOverloaded() throws Exception {
        try (RawWorker worker =
                new RawWorker(request -> RawWorker.ok("application/json", HEALTH.formatted(proof(request)))
                        .replaceFirst("\r\n", "\r\nConnection: close\r\n"))) {
            WorkerEndpoint endpoint = WorkerEndpoint.managed(worker.uri(), SECRET);
            assertThat(client(Duration.ofSeconds(10)).health(endpoint).isServing())
                    .isTrue();
            assertThatThrownBy(() -> client(Duration.ofSeconds(10)).canary(endpoint))
                    .isInstanceOf(WorkerOverloadedException.class);
        }
    }

    @Test
    void aResponseThatTricklesHasATotalDeadline() throws Exception {
        try (ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            Thread.ofVirtual().start(() -> trickle(listener));
            WorkerEndpoint endpoint =
                    WorkerEndpoint.registered(URI.create("http://127.0.0.1:" + listener.getLocalPort()), "");
            long begin = System.nanoTime();
            assertThatThrownBy(() -> client(Duration.ofMillis(200)).health(endpoint))
                    .hasMessageContaining("within 200 ms");
            assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(Duration.ofSeconds(5));
        }
    }

    /** A byte now and then, forever. */
    private static void trickle(ServerSocket listener) {
        try (Socket socket = listener.accept()) {
            OutputStream out = socket.getOutputStream();
            out.write("HTTP/1.1 200 OK\r\nX: ".getBytes(StandardCharsets.US_ASCII));
            while (true) {
                out.write('x');
                Thread.sleep(20);
            }
        } catch (IOException | InterruptedException e) {
            // the client has gone
        }
    }

    @ParameterizedTest
    @CsvSource({
        "/health, 503, too_many_connections, true",
        "/health, 429, too_many_requests, true",
        "/health, 500, internal_error, false",
        "/health/deep, 429, queue_full, true",
        "/health/deep, 503, too_many_connections, true",
        "/health/deep, 503, not_ready, false",
        "/health/deep, 401, invalid_api_key, false",
    })
    void theWorkersOwnLimitsAreToldFromFailures(String path, int status, String code, boolean overload)
            throws Exception {
        String body = "{\"error\":{\"code\":\"" + code + "\"}}";
        String answer = "HTTP/1.1 " + status + " X\r\nContent-Length: " + body.length() + "\r\n\r\n" + body;
        try (RawWorker worker = new RawWorker(_ -> answer)) {
            WorkerEndpoint endpoint = WorkerEndpoint.registered(worker.uri(), "key");
            HttpWorkerClient client = client(Duration.ofSeconds(10));
            assertThatThrownBy(() -> {
                        if (path.equals("/health")) {
                            client.health(endpoint);
                        } else {
                            client.canary(endpoint);
                        }
                    })
                    .hasMessageContaining(String.valueOf(status))
                    .satisfies(failure -> assertThat(failure instanceof WorkerOverloadedException)
                            .isEqualTo(overload));
        }
    }

    @ParameterizedTest
    @CsvSource({"[]", "3", "{\"status\":{}}", "{\"capabilities\":[[],1]}", "{\"running\":\"x\"}", "nul", "{"})
    void anyBodyIsHealthOrAnIoException(String body) throws Exception {
        try (RawWorker worker = new RawWorker(_ -> RawWorker.ok("application/json", body))) {
            WorkerEndpoint endpoint = WorkerEndpoint.registered(worker.uri(), "");
            assertThatCode(() -> {
                        try {
                            assertThat(client(Duration.ofSeconds(10))
                                            .health(endpoint)
                                            .isServing())
                                    .isFalse();
                        } catch (IOException e) {
                            assertThat(e).hasMessageContaining("/health");
                        }
                    })
                    .doesNotThrowAnyException();
        }
    }
}
