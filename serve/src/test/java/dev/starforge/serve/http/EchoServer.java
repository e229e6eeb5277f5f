package dev.starforge.serve.http;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.RawClient;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A server that says back what it got; some paths do something else. */
final class EchoServer implements Handler, AutoCloseable {
    static final Duration SHORT = Duration.ofMillis(300);
    static final HttpLimits LIMITS = HttpLimits.DEFAULT.withTimes(SHORT, SHORT, Duration.ofSeconds(20), SHORT);

    /** A client of {@code /wait} has left. */
    final CountDownLatch disconnected = new CountDownLatch(1);

    /** {@code /wait} or {@code /slow} has begun. */
    final CountDownLatch waiting = new CountDownLatch(1);

    /** A write of {@code /flood} has failed. */
    final CountDownLatch torn = new CountDownLatch(1);

    final AtomicInteger permits = new AtomicInteger();
    final HttpServer server;

    EchoServer() throws IOException {
        this(LIMITS);
    }

    EchoServer(HttpLimits limits) throws IOException {
        server = HttpServer.start(new InetSocketAddress("127.0.0.1", 0), this, limits, Clock.systemUTC());
    }

    RawClient client() throws IOException {
        return new RawClient(server.port());
    }

    static RawClient.Reply ask(RawClient client, String head, String body) throws IOException {
        return client.send(head.replace("\n", "\r\n") + "\r\n\r\n" + body).reply();
    }

    void assertIdle() throws InterruptedException {
        for (int i = 0; i < 1000 && (server.connections() > 0 || permits.get() > 0); i++) {
            Thread.sleep(5);
        }
        assertThat(server.connections()).isZero();
        assertThat(permits).hasValue(0);
    }

    private static void pause() {
        try {
            Thread.sleep(200);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(10, TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void admit(RequestHead head) {
        if (head.path().equals("/forbidden")) {
            throw new HttpException(403, "forbidden", "not for you", Map.of("X-Why", "because"));
        }
    }

    @Override
    public boolean isEssential(RequestHead head) {
        return head.path().equals("/health");
    }

    @Override
    public void handle(Exchange exchange) throws IOException {
        permits.incrementAndGet();
        try {
            answer(exchange);
        } finally {
            permits.decrementAndGet();
        }
    }

    private void answer(Exchange exchange) throws IOException {
        switch (exchange.head().path()) {
            case "/wait" -> {
                CountDownLatch left = new CountDownLatch(1);
                exchange.onDisconnect(left::countDown);
                waiting.countDown();
                await(left);
                disconnected.countDown();
                exchange.respond(200, "text/plain", new byte[0]);
            }
            case "/slow" -> {
                ResponseStream stream = exchange.stream("text/plain");
                waiting.countDown();
                pause();
                stream.write("late".getBytes(StandardCharsets.UTF_8));
                stream.finish();
            }
            case "/linger" -> {
                exchange.respond(200, "text/plain", new byte[0]);
                pause();
            }
            case "/linger-stream" -> {
                exchange.stream("text/plain").finish();
                pause();
            }
            case "/stream" -> {
                ResponseStream stream = exchange.stream("text/plain");
                stream.write("one ".getBytes(StandardCharsets.UTF_8));
                stream.write(new byte[0]);
                stream.write("two".getBytes(StandardCharsets.UTF_8));
                stream.finish();
            }
            case "/flood" -> {
                ResponseStream stream = exchange.stream("text/plain");
                try {
                    for (int i = 0; i < 10_000; i++) {
                        stream.write(new byte[64 << 10]);
                    }
                } catch (IOException stalled) {
                    torn.countDown();
                    throw stalled;
                }
            }
            case "/fail" -> throw new HttpException(503, "busy", "come back", Map.of("Retry-After", "2"));
            default -> {
                RequestHead head = exchange.head();
                String answer = head.method() + " " + head.path() + " " + head.query() + " "
                        + new String(exchange.body(), StandardCharsets.UTF_8);
                exchange.respond(200, "text/plain", answer.getBytes(StandardCharsets.UTF_8));
            }
        }
    }

    @Override
    public ErrorResponse describe(RequestHead head, HttpException failure) {
        return describe(failure);
    }

    @Override
    public ErrorResponse describe(HttpException failure) {
        return new ErrorResponse(
                ("{\"code\":\"" + failure.code() + "\"}").getBytes(StandardCharsets.UTF_8), failure.headers());
    }

    @Override
    public void close() {
        server.close();
    }
}
