package dev.starforge.serve;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.serve.http.Exchange;
import dev.starforge.serve.http.Handler;
import dev.starforge.serve.http.HttpException;
import dev.starforge.serve.http.HttpLimits;
import dev.starforge.serve.http.HttpServer;
import dev.starforge.serve.http.RequestHead;
import dev.starforge.text.json.Jackson;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;

/** The ready callback is sent, and retried until it succeeds. */
final class CallbackTest {
    private static final Callback.Ready READY = new Callback.Ready(
            "w-1",
            "repo/model",
            1 << 20,
            "system",
            URI.create("http://127.0.0.1:8080"),
            "text-gen",
            List.of("completion", "chat"),
            "cpu",
            "cpu",
            "ready");
    private static final Duration PAUSE = Duration.ofMillis(1);

    /** Fails some times before it listens. */
    private static final class Listener implements Handler {
        private final List<String> bodies = new CopyOnWriteArrayList<>();
        private final int failures;

        Listener(int failures) {
            this.failures = failures;
        }

        @Override
        public void admit(RequestHead head) {}

        @Override
        public void handle(Exchange exchange) throws IOException {
            bodies.add(new String(exchange.body(), StandardCharsets.UTF_8));
            exchange.respond(bodies.size() <= failures ? 503 : 202, "text/plain", new byte[0]);
        }

        @Override
        public ErrorResponse describe(RequestHead head, HttpException failure) {
            return describe(failure);
        }

        @Override
        public ErrorResponse describe(HttpException failure) {
            return new ErrorResponse(new byte[0], Map.of());
        }

        HttpServer start() throws IOException {
            return HttpServer.start(new InetSocketAddress("127.0.0.1", 0), this, HttpLimits.DEFAULT, Clock.systemUTC());
        }
    }

    private static Callback to(HttpServer server) {
        return new Callback(URI.create("http://127.0.0.1:" + server.port() + "/ready"), "", PAUSE);
    }

    @Test
    void theCallbackOfAWildcardAddressHasAReachableUrl() throws IOException {
        URI listener = URI.create("http://127.0.0.1:7000/ready");
        assertThat(Callback.reachable(URI.create("http://0.0.0.0:8080"), listener))
                .isEqualTo(URI.create("http://127.0.0.1:8080"));
        assertThat(Callback.reachable(URI.create("http://[0:0:0:0:0:0:0:0]:8080"), listener))
                .isEqualTo(URI.create("http://127.0.0.1:8080"));
        assertThat(Callback.reachable(URI.create("http://10.1.2.3:8080"), listener))
                .isEqualTo(URI.create("http://10.1.2.3:8080"));
    }

    @Test
    void retriesUntilTheCallbackSucceeds() throws Exception {
        Listener listener = new Listener(3);
        try (HttpServer server = listener.start()) {
            to(server).send(READY);
        }
        assertThat(listener.bodies).hasSize(4);
        JsonNode body = Jackson.JSON.readTree(listener.bodies.getLast());
        assertThat(body.propertyNames())
                .containsExactly(
                        "worker_id",
                        "vram_bytes",
                        "uri",
                        "model_ref",
                        "memory_bytes",
                        "memory_architecture",
                        "worker_type",
                        "capabilities",
                        "device",
                        "backend",
                        "status");
        assertThat(body.get("uri").stringValue()).isEqualTo("http://127.0.0.1:8080");
        assertThat(body.get("vram_bytes").longValue()).isEqualTo(1 << 20);
        assertThat(body.get("capabilities")).hasSize(2);
    }

    @Test
    void givesUpWithTheReason() throws Exception {
        Listener listener = new Listener(100);
        try (HttpServer server = listener.start()) {
            assertThatThrownBy(() -> to(server).send(READY))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("got status 503");
        }
        assertThat(listener.bodies).hasSize(6);
    }

    @Test
    void theTestModeOfTheFirstProtocolSendsNoCallback() throws Exception {
        new Callback(URI.create("http://localhost:9999/callback"), "", PAUSE).send(READY);
    }
}
