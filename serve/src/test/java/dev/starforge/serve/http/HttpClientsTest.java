package dev.starforge.serve.http;

import static dev.starforge.serve.http.EchoServer.LIMITS;
import static dev.starforge.serve.http.EchoServer.SHORT;
import static dev.starforge.serve.http.EchoServer.ask;
import static dev.starforge.serve.http.EchoServer.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.serve.RawClient;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Clients that are slow, silent, too many, or disconnected. */
final class HttpClientsTest {
    private EchoServer echo;

    @BeforeEach
    void start() throws IOException {
        echo = new EchoServer();
    }

    @AfterEach
    void stop() {
        echo.close();
    }

    private void restart(HttpLimits limits) throws IOException {
        echo.close();
        echo = new EchoServer(limits);
    }

    @Test
    void aSlowRequestGetsATimeoutError() throws Exception {
        try (RawClient head = echo.client();
                RawClient body = echo.client()) {
            head.send("GET /x HTTP/1.1\r\nHost: ");
            body.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc");
            for (int i = 0; i < 8; i++) {
                Thread.sleep(50);
                head.send("x");
                body.send("x");
            }
            assertThat(head.reply().status()).isEqualTo(408);
            assertThat(body.reply().status()).isEqualTo(408);
            assertThat(echo.permits).hasValue(0);
        }
    }

    @Test
    void anIdleConnectionIsClosed() throws IOException {
        restart(LIMITS.withTimes(SHORT, SHORT, SHORT, SHORT));
        try (RawClient client = echo.client()) {
            assertThat(client.isClosed()).isTrue();
        }
    }

    /** Reads nothing of 640 MB: the buffers fill, the write stalls, and the connection ends. */
    @Test
    void aClientThatDoesNotReadIsDisconnected() throws Exception {
        try (RawClient client = echo.client()) {
            client.get("/flood");
            assertThat(echo.torn.await(5, TimeUnit.SECONDS)).isTrue();
        }
        echo.assertIdle();
    }

    @Test
    void aDisconnectIsDetectedWithoutAWrite() throws Exception {
        RawClient client = echo.client();
        client.get("/wait");
        await(echo.waiting);
        long begin = System.nanoTime();
        client.close();
        await(echo.disconnected);
        assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(Duration.ofMillis(100));
        echo.assertIdle();
    }

    @Test
    void aDisconnectIsDetectedBehindPipelinedBytes() throws Exception {
        RawClient client = echo.client();
        client.get("/wait");
        await(echo.waiting);
        client.send("GET /next HTTP/1.1\r\n");
        Thread.sleep(20);
        client.close();
        await(echo.disconnected);
    }

    @Test
    void aClientThatPipelinesTooManyBytesIsDisconnected() throws Exception {
        try (RawClient client = echo.client()) {
            client.get("/wait");
            await(echo.waiting);
            String much = "x".repeat(ConnectionReader.CAPACITY + 8192);
            client.send(much);
            await(echo.disconnected);
        }
    }

    /** The handler has answered but not returned, and the next request is larger than what is kept ahead of its turn. */
    @ParameterizedTest
    @ValueSource(strings = {"/linger", "/linger-stream"})
    void aLargeRequestRightAfterAnAnswer(String path) throws IOException {
        try (RawClient client = echo.client()) {
            assertThat(client.get(path).reply().status()).isEqualTo(200);
            String body = "b".repeat(4 * ConnectionReader.CAPACITY);
            RawClient.Reply reply = ask(client, "POST /x HTTP/1.1\nHost: x\nContent-Length: " + body.length(), body);
            assertThat(reply.body()).hasSize("POST /x  ".length() + body.length());
        }
    }

    @Test
    void aDisconnectWithinARequestDoesNotAffectOthers() throws Exception {
        for (String part : List.of(
                "",
                "GET",
                "GET /x HTTP/1.1\r\nHost: x\r\n",
                "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")) {
            echo.client().send(part).close();
        }
        echo.assertIdle();
    }

    @Test
    void theLongestIdleConnectionIsClosedForANewOne() throws Exception {
        restart(LIMITS.withConnections(8));
        List<RawClient> idle = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            idle.add(echo.client());
        }
        try (RawClient client = echo.client()) {
            assertThat(client.get("/x").reply().status()).isEqualTo(200);
        }
        assertThat(echo.server.connections()).isLessThanOrEqualTo(8);
        for (RawClient each : idle) {
            each.close();
        }
        echo.assertIdle();
    }

    @Test
    void aNewConnectionIsRejectedWhenAllAreBusy() throws Exception {
        restart(LIMITS.withConnections(1));
        try (RawClient busy = echo.client()) {
            busy.get("/wait");
            await(echo.waiting);
            try (RawClient second = echo.client()) {
                RawClient.Reply reply = second.get("/x").reply();
                assertThat(reply.status()).isEqualTo(503);
                assertThat(reply.body()).contains("too_many_connections");
                assertThat(second.isClosed()).isTrue();
            }
            try (RawClient check = echo.client()) {
                assertThat(check.get("/health").reply().status()).isEqualTo(200);
                assertThat(check.isClosed()).isTrue();
            }
        }
    }

    @Test
    void closingLetsTheResponseFinish() throws Exception {
        try (RawClient client = echo.client();
                RawClient other = echo.client()) {
            other.get("/x").reply();
            client.get("/slow");
            await(echo.waiting);
            echo.server.close(Duration.ofSeconds(2));
            assertThat(client.reply().body()).isEqualTo("late");
            assertThat(other.isClosed()).isTrue();
            assertThatThrownBy(echo::client).isInstanceOf(IOException.class);
        }
    }
}
