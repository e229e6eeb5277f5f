package dev.starforge.serve.http;

import static dev.starforge.serve.http.EchoServer.LIMITS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.starforge.serve.Fixture;
import dev.starforge.serve.RawClient;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** More connections, and more bytes in them, than a server takes. */
final class HttpOverloadTest {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final HttpLimits PATIENT = LIMITS.withTimes(LONG, LONG, LONG, LONG);

    private static List<RawClient> halfOpen(EchoServer echo, int count, String part) throws IOException {
        List<RawClient> clients = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            clients.add(echo.client().send(part));
        }
        return clients;
    }

    private static void close(List<RawClient> clients) throws IOException {
        for (RawClient client : clients) {
            client.close();
        }
    }

    /** Requests that never arrive fill all connections; others are served all the same, at once. */
    @Test
    void halfOpenRequestsDoNotKeepOthersOut() throws Exception {
        for (String part : List.of(
                "",
                "POST /x HTTP/1.1\r\nHost: x\r\nA: ",
                "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
                "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nabc",
                "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")) {
            try (EchoServer echo = new EchoServer(PATIENT.withConnections(20))) {
                List<RawClient> attackers = halfOpen(echo, 60, part);
                for (String path : List.of("/health", "/x")) {
                    try (RawClient client = echo.client()) {
                        assertThat(client.get(path).reply().status()).as(part).isEqualTo(200);
                    }
                }
                assertThat(echo.server.connections()).isLessThanOrEqualTo(20);
                close(attackers);
                echo.assertIdle();
            }
        }
    }

    /** All connections serve requests: one that is only connected yet may become a health check, and is not closed for others. */
    @Test
    void newConnectionsDoNotEvictThoseForEssentialRequests() throws Exception {
        try (EchoServer echo = new EchoServer(PATIENT.withConnections(4))) {
            List<RawClient> serving = halfOpen(echo, 4, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
            while (echo.permits.get() < 4) {
                Thread.onSpinWait();
            }
            try (RawClient health = echo.client().send("GET /health HTTP/1.1\r\n")) {
                List<RawClient> others = halfOpen(echo, 15, "");
                Fixture.await("all are accepted", () -> echo.server.connections() == 20);
                assertThat(health.send("Host: x\r\n\r\n").reply().status()).isEqualTo(200);
                others.addAll(halfOpen(echo, 17, ""));
                assertThat(others.getFirst().isClosed())
                        .as("the oldest gives way")
                        .isTrue();
                assertThat(echo.server.connections()).isLessThanOrEqualTo(20);
                close(others);
            }
            close(serving);
            echo.assertIdle();
        }
    }

    @Test
    void bodiesOfAllConnectionsShareABudget() throws Exception {
        try (EchoServer echo = new EchoServer(PATIENT.withBuffers(1 << 20))) {
            String head = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n";
            List<RawClient> attackers = halfOpen(echo, 12, head + "b".repeat(300_000));
            int refused = 0;
            for (RawClient attacker : attackers.subList(4, 12)) {
                attacker.socket().setSoTimeout(500);
                try {
                    RawClient.Reply reply = attacker.reply();
                    assertThat(reply.status()).isEqualTo(503);
                    assertThat(reply.body()).contains("overloaded");
                    refused++;
                } catch (IOException stillArriving) {
                    // one of those that fit the budget
                }
            }
            assertThat(refused).isGreaterThanOrEqualTo(5);
            assertThat(echo.server.bufferedBytes()).isBetween(1L, 1L << 20);
            try (RawClient small = echo.client()) {
                assertThat(small.get("/x").reply().status()).isEqualTo(200);
            }
            close(attackers);
            echo.assertIdle();
            assertThat(echo.server.bufferedBytes()).isZero();
            String body = "b".repeat(400_000);
            try (RawClient client = echo.client()) {
                assertThat(client.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n" + body)
                                .reply()
                                .status())
                        .isEqualTo(200);
            }
        }
    }

    /** Bodies that stop arriving take all of the budget; a second later, they give way. */
    @Test
    void slowBodiesGiveWay() throws Exception {
        try (EchoServer echo = new EchoServer(PATIENT.withBuffers(1 << 20))) {
            String head = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n";
            List<RawClient> attackers = halfOpen(echo, 40, head + "b".repeat(30_000));
            String body = "b".repeat(400_000);
            String request = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n" + body;
            int status = 503;
            for (long end = System.nanoTime() + LONG.toNanos(); status == 503 && System.nanoTime() < end; ) {
                try (RawClient client = echo.client()) {
                    status = client.send(request).reply().status();
                }
            }
            assertThat(status).isEqualTo(200);
            close(attackers);
            echo.assertIdle();
            assertThat(echo.server.bufferedBytes()).isZero();
        }
    }

    /** What is free counts: together with it, one slow body is enough. */
    @Test
    void aSlowBodyGivesWayToALargerOne() throws Exception {
        try (EchoServer echo = new EchoServer(PATIENT.withBuffers(1 << 20))) {
            String head = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n";
            try (RawClient _ = echo.client().send(head.formatted("/wait", 300_000) + "b".repeat(300_000));
                    RawClient slow = echo.client().send(head.formatted("/x", 4_000_000) + "b".repeat(200_000))) {
                EchoServer.await(echo.waiting);
                Thread.sleep(1500);
                try (RawClient client = echo.client()) {
                    assertThat(client.send(head.formatted("/x", 400_000) + "b".repeat(400_000))
                                    .reply()
                                    .status())
                            .isEqualTo(200);
                }
                assertThat(slow.isClosed()).isTrue();
            }
            echo.assertIdle();
            assertThat(echo.server.bufferedBytes()).isZero();
        }
    }

    /** The buffer of a chunked body is larger than the body, and is made smaller without more memory. */
    @Test
    void aChunkedBodyNeedsNoMoreThanItsBuffer() throws Exception {
        String chunk = Integer.toHexString(1_000_000) + "\r\n" + "b".repeat(1_000_000) + "\r\n0\r\n\r\n";
        try (EchoServer echo = new EchoServer(PATIENT.withBuffers(1_800_000))) {
            try (RawClient client = echo.client()) {
                client.send("POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk);
                assertThat(client.reply().status()).isEqualTo(200);
            }
            echo.assertIdle();
            assertThat(echo.server.bufferedBytes()).isZero();
        }
    }

    /** A declared length costs nothing before its bytes arrive. */
    @Test
    void declaredLengthsTakeNoMemory() throws Exception {
        try (EchoServer echo = new EchoServer(PATIENT.withBuffers(1 << 20))) {
            String chunked = "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3d0900\r\n";
            List<RawClient> clients = halfOpen(echo, 40, chunked + "abc");
            try (RawClient client = echo.client()) {
                assertThat(client.post("/x", "abc").reply().body()).isEqualTo("POST /x  abc");
            }
            assertThat(echo.server.bufferedBytes()).isLessThanOrEqualTo(40L * (16 << 10));
            close(clients);
        }
    }

    /** Bytes of a next request, and heads without end, are buffered within the budget, too. */
    @Test
    void pipelinedBytesShareTheBudget() throws Exception {
        try (EchoServer echo = new EchoServer(PATIENT.withBuffers(100_000))) {
            List<RawClient> clients = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                clients.add(echo.client().get("/wait").send("x".repeat(40_000)));
            }
            Thread.sleep(50);
            assertThat(echo.server.bufferedBytes()).isLessThanOrEqualTo(100_000);
            close(clients);
            echo.assertIdle();
            assertThat(echo.server.bufferedBytes()).isZero();
        }
    }

    @Test
    void connectionsOfAnAddressAreLimitedUnlessItIsALoopbackAddress() throws Exception {
        HttpLimits limits = PATIENT.withConnections(20, 3);
        InetSocketAddress any = new InetSocketAddress("127.0.0.1", 0);
        try (EchoServer handler = new EchoServer(limits);
                HttpServer server = HttpServer.start(any, handler, limits, Clock.systemUTC(), _ -> false)) {
            List<RawClient> local = halfOpen(handler, 10, "GET ");
            assertThat(local.getLast()
                            .send("/x HTTP/1.1\r\nHost: x\r\n\r\n")
                            .reply()
                            .status())
                    .isEqualTo(200);
            assertThat(handler.server.connections()).isEqualTo(10);
            List<RawClient> limited = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                limited.add(new RawClient(server.port()));
            }
            for (RawClient closed : limited.subList(0, 7)) {
                assertThat(closed.isClosed()).as("the oldest are closed").isTrue();
            }
            for (RawClient open : limited.subList(7, 10)) {
                assertThat(open.get("/x").reply().status()).isEqualTo(200);
            }
            for (RawClient busy : limited.subList(7, 10)) {
                busy.get("/wait");
            }
            while (handler.permits.get() < 3) {
                Thread.onSpinWait();
            }
            try (RawClient refused = new RawClient(server.port())) {
                RawClient.Reply reply = refused.reply();
                assertThat(reply.status()).isEqualTo(503);
                assertThat(reply.body()).contains("too_many_connections");
            }
            close(local);
            close(limited);
        }
    }

    @Test
    void aPortInUseIsRecognized() throws Exception {
        try (EchoServer echo = new EchoServer(LIMITS)) {
            InetSocketAddress taken = new InetSocketAddress("127.0.0.1", echo.server.port());
            ListenException failure = catchThrowableOfType(
                    ListenException.class, () -> HttpServer.start(taken, echo, LIMITS, Clock.systemUTC()));
            assertThat(failure.isPortInUse()).isTrue();
            assertThat(failure).hasMessageEndingWith(":" + echo.server.port() + ": the port is in use");
        }
    }

    @Test
    void aDeadEssentialThreadReachesTheHandlerOfUncaughtExceptions() throws Exception {
        List<Throwable> seen = new ArrayList<>();
        Thread thread;
        synchronized (seen) {
            thread = EssentialThread.start("accept", () -> {
                synchronized (seen) {
                    throw new OutOfMemoryError("as the test wants it");
                }
            });
            thread.setUncaughtExceptionHandler((_, failure) -> seen.add(failure));
        }
        thread.join();
        assertThat(seen).hasSize(1);
        assertThat(seen.getFirst())
                .isInstanceOf(EssentialThread.DiedException.class)
                .hasCauseInstanceOf(OutOfMemoryError.class)
                .hasMessageContaining("\"accept\" died");
    }
}
