package dev.starforge.serve.http;

import static dev.starforge.serve.http.EchoServer.LIMITS;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.starforge.serve.RawClient;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.Socket;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Assumptions;
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
        Optional<InetAddress> outer = NetworkInterface.networkInterfaces()
                .flatMap(NetworkInterface::inetAddresses)
                .filter(address -> address.isSiteLocalAddress() && !address.isLoopbackAddress())
                .findFirst();
        Assumptions.assumeTrue(outer.isPresent(), "a machine with an address besides the loopback ones");
        HttpLimits limits = PATIENT.withConnections(20, 3);
        EchoServer handler = new EchoServer(limits);
        try (handler;
                HttpServer server = HttpServer.start(
                        new InetSocketAddress(outer.get(), 0), handler, limits, Clock.systemUTC())) {
            List<RawClient> local = halfOpen(handler, 10, "GET ");
            assertThat(handler.server.connections()).isEqualTo(10);
            List<Socket> remote = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                remote.add(new Socket(outer.get(), server.port()));
            }
            for (int i = 0; i < 7; i++) {
                assertThat(remote.get(i).getInputStream().read()).as("the oldest are closed").isEqualTo(-1);
            }
            assertThat(server.connections()).isEqualTo(3);
            close(local);
            for (Socket socket : remote) {
                socket.close();
            }
        }
    }

    @Test
    void aPortInUseIsRecognized() throws Exception {
        try (EchoServer echo = new EchoServer(LIMITS)) {
            InetSocketAddress taken = new InetSocketAddress("127.0.0.1", echo.server.port());
            ListenException failure = catchThrowableOfType(
                    ListenException.class,
                    () -> HttpServer.start(taken, echo, LIMITS, Clock.systemUTC()));
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
