package dev.starforge.serve.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starforge.serve.RawClient;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** HTTP itself: framing, limits, and clients that do what they should not. */
final class HttpServerTest {
    private static final Duration SHORT = Duration.ofMillis(300);
    private static final HttpLimits LIMITS = HttpLimits.DEFAULT.withTimes(SHORT, SHORT, Duration.ofSeconds(20), SHORT);

    private final CountDownLatch gone = new CountDownLatch(1);
    private final CountDownLatch waiting = new CountDownLatch(1);
    private final CountDownLatch torn = new CountDownLatch(1);
    private final AtomicInteger permits = new AtomicInteger();
    private HttpServer server;

    /** Says back what it got; some paths do something else. */
    private final class Echo implements Handler {
        @Override
        public Permit admit(Head head) {
            if (head.path().equals("/forbidden")) {
                throw new HttpFailure(403, "forbidden", "not for you", Map.of("X-Why", "because"));
            }
            permits.incrementAndGet();
            return permits::decrementAndGet;
        }

        @Override
        public void handle(Exchange exchange) throws IOException {
            switch (exchange.head().path()) {
                case "/wait" -> {
                    CountDownLatch left = new CountDownLatch(1);
                    exchange.onGone(left::countDown);
                    waiting.countDown();
                    await(left);
                    gone.countDown();
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
                case "/fail" -> throw new HttpFailure(503, "busy", "come back", Map.of("Retry-After", "2"));
                default -> {
                    Head head = exchange.head();
                    String answer = head.method() + " " + head.path() + " " + head.query() + " "
                            + new String(exchange.body(), StandardCharsets.UTF_8);
                    exchange.respond(200, "text/plain", answer.getBytes(StandardCharsets.UTF_8));
                }
            }
        }

        @Override
        public Failed describe(Head head, HttpFailure failure) {
            return describe(failure);
        }

        @Override
        public Failed describe(HttpFailure failure) {
            return new Failed(
                    ("{\"code\":\"" + failure.code() + "\"}").getBytes(StandardCharsets.UTF_8), failure.headers());
        }
    }

    private static void pause() {
        try {
            Thread.sleep(200);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(10, TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    @BeforeEach
    void start() throws IOException {
        start(LIMITS);
    }

    private void start(HttpLimits limits) throws IOException {
        server = HttpServer.start(new InetSocketAddress("127.0.0.1", 0), new Echo(), limits, Clock.systemUTC());
    }

    @AfterEach
    void stop() {
        server.close();
    }

    private RawClient client() throws IOException {
        return new RawClient(server.port());
    }

    private static RawClient.Reply ask(RawClient client, String head, String body) throws IOException {
        return client.send(head.replace("\n", "\r\n") + "\r\n\r\n" + body).reply();
    }

    @Test
    void requestsOneAfterTheOther() throws IOException {
        try (RawClient client = client()) {
            for (int i = 0; i < 3; i++) {
                RawClient.Reply reply = ask(client, "POST /a?b=c HTTP/1.1\nHost: x\nContent-Length: 4", "body");
                assertThat(reply.status()).isEqualTo(200);
                assertThat(reply.body()).isEqualTo("POST /a b=c body");
                assertThat(reply.headers()).containsKey("date").doesNotContainKey("connection");
            }
            assertThat(server.connections()).isEqualTo(1);
        }
    }

    @Test
    void pipelinedRequestsAreAnsweredInOrder() throws IOException {
        try (RawClient client = client()) {
            StringBuilder all = new StringBuilder();
            for (int i = 0; i < 50; i++) {
                all.append("POST /").append(i).append(" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab");
            }
            client.send(all.toString());
            for (int i = 0; i < 50; i++) {
                assertThat(client.reply().body()).isEqualTo("POST /" + i + "  ab");
            }
        }
    }

    @Test
    void anEmptyLineBeforeARequest() throws IOException {
        try (RawClient client = client()) {
            assertThat(ask(client, "\nGET /x HTTP/1.1\nHost: x", "").body()).isEqualTo("GET /x  ");
        }
    }

    @Test
    void aProxyWritesTheWholeAddress() throws IOException {
        try (RawClient client = client()) {
            assertThat(ask(client, "GET http://x:80/y?z HTTP/1.1\nHost: x", "").body())
                    .isEqualTo("GET /y z ");
        }
    }

    @Test
    void chunksOfARequest() throws IOException {
        try (RawClient client = client()) {
            String head = "POST /a HTTP/1.1\nHost: x\nTransfer-Encoding: chunked";
            String body = "3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
            assertThat(ask(client, head, body).body()).isEqualTo("POST /a  abc0123456789");
            assertThat(ask(client, head, "0\r\n\r\n").body()).isEqualTo("POST /a  ");
        }
    }

    @Test
    void chunksOfAnAnswer() throws IOException {
        try (RawClient client = client()) {
            for (int i = 0; i < 2; i++) {
                RawClient.Reply reply = ask(client, "GET /stream HTTP/1.1\nHost: x", "");
                assertThat(reply.headers()).containsEntry("transfer-encoding", "chunked");
                assertThat(reply.body()).isEqualTo("one two");
            }
        }
    }

    @Test
    void anOldClientGetsAStreamUpToTheEnd() throws IOException {
        try (RawClient client = client()) {
            client.send("GET /stream HTTP/1.0\r\n\r\n");
            assertThat(client.line()).isEqualTo("HTTP/1.1 200 OK");
            assertThat(client.openStream().rest()).isEqualTo("one two");
        }
    }

    @Test
    void closesWhenAskedTo() throws IOException {
        try (RawClient client = client()) {
            RawClient.Reply reply = ask(client, "GET /x HTTP/1.1\nHost: x\nConnection: Close", "");
            assertThat(reply.headers()).containsEntry("connection", "close");
            assertThat(client.isClosed()).isTrue();
        }
    }

    @Test
    void aBodyIsInvitedOnlyWhereItIsWelcome() throws IOException {
        try (RawClient client = client()) {
            client.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
            assertThat(client.line()).isEqualTo("HTTP/1.1 100 Continue");
            client.line();
            assertThat(client.send("ok").reply().body()).isEqualTo("POST /a  ok");
        }
        try (RawClient client = client()) {
            RawClient.Reply reply =
                    ask(client, "POST /forbidden HTTP/1.1\nHost: x\nContent-Length: 2\nExpect: 100-continue", "");
            assertThat(reply.status()).isEqualTo(403);
            assertThat(reply.headers()).containsEntry("x-why", "because");
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "400|GET",
                "400|GET  /x HTTP/1.1\\nHost: x",
                "400|GET /x  HTTP/1.1\\nHost: x",
                "400|G@T /x HTTP/1.1\\nHost: x",
                "400|GET x HTTP/1.1\\nHost: x",
                "400|GET * HTTP/1.1\\nHost: x",
                "400|GET /x FTP/1.1\\nHost: x",
                "505|GET /x HTTP/2.0\\nHost: x",
                "400|GET /x HTTP/1.1",
                "400|GET /x HTTP/1.1\\nHost: x\\nHost: y",
                "400|GET /x HTTP/1.1\\nHost : x",
                "400|GET /x HTTP/1.1\\nHost: x\\n folded: y",
                "400|GET /x HTTP/1.1\\nHost: x\\nno colon",
                "400|GET /x HTTP/1.1\\nHost: x\\n: empty",
                "400|GET /x HTTP/1.1\\nHost: x\\nA: b\\0c",
                "400|GET /x HTTP/1.1\\nHost: x\\nA: b\\rc",
                "400|POST /x HTTP/1.1\\nHost: x\\nContent-Length: -1",
                "400|POST /x HTTP/1.1\\nHost: x\\nContent-Length: +1",
                "400|POST /x HTTP/1.1\\nHost: x\\nContent-Length: 0x1",
                "400|POST /x HTTP/1.1\\nHost: x\\nContent-Length: 1, 1",
                "400|POST /x HTTP/1.1\\nHost: x\\nContent-Length: 1\\nContent-Length: 2",
                "400|POST /x HTTP/1.1\\nHost: x\\nContent-Length:",
                "400|POST /x HTTP/1.1\\nHost: x\\nContent-Length: 99999999999999999999",
                "413|POST /x HTTP/1.1\\nHost: x\\nContent-Length: 4194305",
                "413|POST /x HTTP/1.1\\nHost: x\\nContent-Length: 999999999999999999",
                "400|POST /x HTTP/1.1\\nHost: x\\nContent-Length: 1\\nTransfer-Encoding: chunked",
                "501|POST /x HTTP/1.1\\nHost: x\\nTransfer-Encoding: gzip, chunked",
                "501|POST /x HTTP/1.1\\nHost: x\\nTransfer-Encoding: chunked\\nTransfer-Encoding: chunked",
                "417|POST /x HTTP/1.1\\nHost: x\\nExpect: miracles",
            })
    void whatCanBeReadInTwoWaysIsRefused(int status, String head) throws IOException {
        try (RawClient client = client()) {
            String plain = head.replace("\\n", "\n").replace("\\0", "\0").replace("\\r", "\r");
            RawClient.Reply reply = ask(client, plain, "");
            assertThat(reply.status()).isEqualTo(status);
            assertThat(reply.headers()).containsEntry("connection", "close");
            assertThat(client.isClosed()).isTrue();
            assertThat(permits).hasValue(0);
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "x\r\n",
                "-1\r\n",
                "\r\n",
                "0x3\r\nabc\r\n",
                "2\r\nabc\r\n0\r\n\r\n",
                "fffffff\r\n",
                "fffffffffffffffff\r\n"
            })
    void chunksThatAreNone(String body) throws IOException {
        try (RawClient client = client()) {
            RawClient.Reply reply = ask(client, "POST /x HTTP/1.1\nHost: x\nTransfer-Encoding: chunked", body);
            assertThat(reply.status()).isIn(400, 413);
        }
    }

    @Test
    void linesAndTrailersOfChunksAreBounded() throws IOException {
        String head = "POST /x HTTP/1.1\nHost: x\nTransfer-Encoding: chunked";
        try (RawClient client = client()) {
            assertThat(ask(client, head, "1;" + "x".repeat(1000)).status()).isEqualTo(400);
        }
        try (RawClient client = client()) {
            assertThat(ask(client, head, "0\r\n" + "A: b\r\n".repeat(100)).status())
                    .isEqualTo(400);
        }
    }

    @Test
    void manySmallChunksAreBoundedToo() throws IOException {
        try (RawClient client = client()) {
            client.send("POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
            String chunk = "40000\r\n" + "x".repeat(0x40000) + "\r\n";
            for (int i = 0; i < 17; i++) {
                client.send(chunk);
            }
            assertThat(client.reply().status()).isEqualTo(413);
        }
    }

    @Test
    void aHeadOfSixteenKilobytes() throws IOException {
        String start = "GET /x HTTP/1.1\r\nHost: x\r\nA: ";
        try (RawClient client = client()) {
            assertThat(client.send(start + "a".repeat(LIMITS.head() - start.length()) + "\r\n\r\n")
                            .reply()
                            .status())
                    .isEqualTo(200);
        }
        try (RawClient client = client()) {
            assertThat(client.send(start + "a".repeat(LIMITS.head() - start.length() + 1) + "\r\n\r\n")
                            .reply()
                            .status())
                    .isEqualTo(431);
        }
        try (RawClient client = client()) {
            assertThat(client.send(start + "a".repeat(2 * LIMITS.head()))
                            .reply()
                            .status())
                    .isEqualTo(431);
        }
    }

    @Test
    void aBodyOfFourMegabytes() throws IOException {
        try (RawClient client = client()) {
            String body = "b".repeat(LIMITS.body());
            RawClient.Reply reply = ask(client, "POST /x HTTP/1.1\nHost: x\nContent-Length: " + body.length(), body);
            assertThat(reply.body()).hasSize("POST /x  ".length() + body.length());
        }
    }

    /** The client is still sending; the answer must reach it all the same. */
    @Test
    void aBodyThatIsTooLargeIsAnsweredBeforeItIsRead() throws IOException {
        try (RawClient client = client()) {
            String body = "b".repeat(LIMITS.body() + 1);
            RawClient.Reply reply = ask(client, "POST /x HTTP/1.1\nHost: x\nContent-Length: " + body.length(), body);
            assertThat(reply.status()).isEqualTo(413);
            assertThat(reply.body()).contains("body_too_large");
        }
    }

    @Test
    void whoeverSendsTooSlowlyIsToldSo() throws Exception {
        try (RawClient head = client();
                RawClient body = client()) {
            head.send("GET /x HTTP/1.1\r\nHost: ");
            body.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc");
            for (int i = 0; i < 8; i++) {
                Thread.sleep(50);
                head.send("x");
                body.send("x");
            }
            assertThat(head.reply().status()).isEqualTo(408);
            assertThat(body.reply().status()).isEqualTo(408);
            assertThat(permits).hasValue(0);
        }
    }

    @Test
    void whoeverSendsNothingIsLetGo() throws IOException {
        stop();
        start(LIMITS.withTimes(SHORT, SHORT, SHORT, SHORT));
        try (RawClient client = client()) {
            assertThat(client.isClosed()).isTrue();
        }
    }

    /** Reads nothing of 640 MB: the buffers fill, the write stalls, and the connection ends. */
    @Test
    void whoeverDoesNotReadIsLetGo() throws Exception {
        try (RawClient client = client()) {
            client.get("/flood");
            assertThat(torn.await(5, TimeUnit.SECONDS)).isTrue();
        }
        assertIdle();
    }

    private void assertIdle() throws InterruptedException {
        for (int i = 0; i < 1000 && (server.connections() > 0 || permits.get() > 0); i++) {
            Thread.sleep(5);
        }
        assertThat(server.connections()).isZero();
        assertThat(permits).hasValue(0);
    }

    @Test
    void theEndIsSeenWithoutAWrite() throws Exception {
        RawClient client = client();
        client.get("/wait");
        await(waiting);
        long begin = System.nanoTime();
        client.close();
        await(gone);
        assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(Duration.ofMillis(100));
        assertIdle();
    }

    @Test
    void theEndIsSeenBehindPipelinedBytes() throws Exception {
        RawClient client = client();
        client.get("/wait");
        await(waiting);
        client.send("GET /next HTTP/1.1\r\n");
        Thread.sleep(20);
        client.close();
        await(gone);
    }

    @Test
    void whoeverSendsFarAheadIsTakenForGone() throws Exception {
        try (RawClient client = client()) {
            client.get("/wait");
            await(waiting);
            String much = "x".repeat(Inbox.CAPACITY + 8192);
            client.send(much);
            await(gone);
        }
    }

    /** The handler has answered but not returned, and the next request is larger than what is kept ahead of its turn. */
    @ParameterizedTest
    @ValueSource(strings = {"/linger", "/linger-stream"})
    void aLargeRequestRightAfterAnAnswer(String path) throws IOException {
        try (RawClient client = client()) {
            assertThat(client.get(path).reply().status()).isEqualTo(200);
            String body = "b".repeat(4 * Inbox.CAPACITY);
            RawClient.Reply reply = ask(client, "POST /x HTTP/1.1\nHost: x\nContent-Length: " + body.length(), body);
            assertThat(reply.body()).hasSize("POST /x  ".length() + body.length());
        }
    }

    @Test
    void leavingWithinARequestIsNoMatter() throws Exception {
        for (String part : List.of(
                "",
                "GET",
                "GET /x HTTP/1.1\r\nHost: x\r\n",
                "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")) {
            client().send(part).close();
        }
        assertIdle();
    }

    @Test
    void aFailureOfTheHandlerKeepsTheConnection() throws IOException {
        try (RawClient client = client()) {
            RawClient.Reply reply = client.get("/fail").reply();
            assertThat(reply.status()).isEqualTo(503);
            assertThat(reply.headers()).containsEntry("retry-after", "2");
            assertThat(client.get("/x").reply().status()).isEqualTo(200);
        }
    }

    @Test
    void idleConnectionsMakeRoom() throws Exception {
        stop();
        start(LIMITS.withConnections(8));
        List<RawClient> idle = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            idle.add(client());
        }
        try (RawClient client = client()) {
            assertThat(client.get("/x").reply().status()).isEqualTo(200);
        }
        assertThat(server.connections()).isLessThanOrEqualTo(8);
        for (RawClient each : idle) {
            each.close();
        }
        assertIdle();
    }

    @Test
    void whenAllAreBusyANewOneIsTurnedAway() throws Exception {
        stop();
        start(LIMITS.withConnections(1));
        try (RawClient busy = client()) {
            busy.get("/wait");
            await(waiting);
            try (RawClient second = client()) {
                RawClient.Reply reply = second.reply();
                assertThat(reply.status()).isEqualTo(503);
                assertThat(reply.body()).contains("too_many_connections");
                assertThat(second.isClosed()).isTrue();
            }
        }
    }

    @Test
    void closingLetsTheAnswerFinish() throws Exception {
        try (RawClient client = client();
                RawClient other = client()) {
            other.get("/x").reply();
            client.get("/slow");
            await(waiting);
            server.close(Duration.ofSeconds(2));
            assertThat(client.reply().body()).isEqualTo("late");
            assertThat(other.isClosed()).isTrue();
            assertThatThrownBy(this::client).isInstanceOf(IOException.class);
        }
    }
}
