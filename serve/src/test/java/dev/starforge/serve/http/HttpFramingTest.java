package dev.starforge.serve.http;

import static dev.starforge.serve.http.EchoServer.LIMITS;
import static dev.starforge.serve.http.EchoServer.ask;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starforge.serve.RawClient;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** How requests and answers are cut out of a stream of bytes, and where that ends. */
final class HttpFramingTest {
    private EchoServer echo;

    @BeforeEach
    void start() throws IOException {
        echo = new EchoServer();
    }

    @AfterEach
    void stop() {
        echo.close();
    }

    @Test
    void requestsOneAfterTheOther() throws IOException {
        try (RawClient client = echo.client()) {
            for (int i = 0; i < 3; i++) {
                RawClient.Reply reply = ask(client, "POST /a?b=c HTTP/1.1\nHost: x\nContent-Length: 4", "body");
                assertThat(reply.status()).isEqualTo(200);
                assertThat(reply.body()).isEqualTo("POST /a b=c body");
                assertThat(reply.headers()).containsKey("date").doesNotContainKey("connection");
            }
            assertThat(echo.server.connections()).isEqualTo(1);
        }
    }

    @Test
    void pipelinedRequestsAreAnsweredInOrder() throws IOException {
        try (RawClient client = echo.client()) {
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
        try (RawClient client = echo.client()) {
            assertThat(ask(client, "\nGET /x HTTP/1.1\nHost: x", "").body()).isEqualTo("GET /x  ");
        }
    }

    @Test
    void aProxyWritesTheWholeAddress() throws IOException {
        try (RawClient client = echo.client()) {
            assertThat(ask(client, "GET http://x:80/y?z HTTP/1.1\nHost: x", "").body())
                    .isEqualTo("GET /y z ");
        }
    }

    @Test
    void chunksOfARequest() throws IOException {
        try (RawClient client = echo.client()) {
            String head = "POST /a HTTP/1.1\nHost: x\nTransfer-Encoding: chunked";
            String body = "3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
            assertThat(ask(client, head, body).body()).isEqualTo("POST /a  abc0123456789");
            assertThat(ask(client, head, "0\r\n\r\n").body()).isEqualTo("POST /a  ");
        }
    }

    @Test
    void chunksOfAnAnswer() throws IOException {
        try (RawClient client = echo.client()) {
            for (int i = 0; i < 2; i++) {
                RawClient.Reply reply = ask(client, "GET /stream HTTP/1.1\nHost: x", "");
                assertThat(reply.headers()).containsEntry("transfer-encoding", "chunked");
                assertThat(reply.body()).isEqualTo("one two");
            }
        }
    }

    @Test
    void anOldClientGetsAStreamUpToTheEnd() throws IOException {
        try (RawClient client = echo.client()) {
            client.send("GET /stream HTTP/1.0\r\n\r\n");
            assertThat(client.line()).isEqualTo("HTTP/1.1 200 OK");
            assertThat(client.openStream().rest()).isEqualTo("one two");
        }
    }

    @Test
    void closesWhenAskedTo() throws IOException {
        try (RawClient client = echo.client()) {
            RawClient.Reply reply = ask(client, "GET /x HTTP/1.1\nHost: x\nConnection: Close", "");
            assertThat(reply.headers()).containsEntry("connection", "close");
            assertThat(client.isClosed()).isTrue();
        }
    }

    @Test
    void continueIsSentOnlyForAcceptedRequests() throws IOException {
        try (RawClient client = echo.client()) {
            client.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
            assertThat(client.line()).isEqualTo("HTTP/1.1 100 Continue");
            client.line();
            assertThat(client.send("ok").reply().body()).isEqualTo("POST /a  ok");
        }
        try (RawClient client = echo.client()) {
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
    void ambiguousRequestsAreRejected(int status, String head) throws IOException {
        try (RawClient client = echo.client()) {
            String plain = head.replace("\\n", "\n").replace("\\0", "\0").replace("\\r", "\r");
            RawClient.Reply reply = ask(client, plain, "");
            assertThat(reply.status()).isEqualTo(status);
            assertThat(reply.headers()).containsEntry("connection", "close");
            assertThat(client.isClosed()).isTrue();
            assertThat(echo.permits).hasValue(0);
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
                "fffffffffffffffff\r\n",
                "3;a\nb\r\nabc\r\n0\r\n\r\n",
                "3\n\r\nabc\r\n0\r\n\r\n",
                "3;a\rb\r\nabc\r\n0\r\n\r\n",
                "0\r\nA: b\nC: d\r\n\r\n",
                "0\r\nA: b\rC: d\r\n\r\n",
                "0\r\nGET /smuggled HTTP/1.1\r\n\r\n",
                "0\r\n folded: b\r\n\r\n"
            })
    void malformedChunksAreRejected(String body) throws IOException {
        try (RawClient client = echo.client()) {
            RawClient.Reply reply = ask(client, "POST /x HTTP/1.1\nHost: x\nTransfer-Encoding: chunked", body);
            assertThat(reply.status()).isIn(400, 413);
            assertThat(client.isClosed()).isTrue();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"GET", "HEAD"})
    void requestsForReadingHaveNoBody(String method) throws IOException {
        for (String framing : List.of("Content-Length: 4000000", "Content-Length: 1", "Transfer-Encoding: chunked")) {
            try (RawClient client = echo.client()) {
                client.send(method + " /x HTTP/1.1\r\nHost: x\r\n" + framing + "\r\n\r\n");
                assertThat(client.line()).isEqualTo("HTTP/1.1 400 Bad Request");
            }
        }
        try (RawClient client = echo.client()) {
            client.send(method + " /x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
            assertThat(client.line()).isEqualTo("HTTP/1.1 200 OK");
        }
    }

    @Test
    void linesAndTrailersOfChunksAreBounded() throws IOException {
        String head = "POST /x HTTP/1.1\nHost: x\nTransfer-Encoding: chunked";
        try (RawClient client = echo.client()) {
            assertThat(ask(client, head, "1;" + "x".repeat(1000)).status()).isEqualTo(400);
        }
        try (RawClient client = echo.client()) {
            assertThat(ask(client, head, "0\r\n" + "A: b\r\n".repeat(100)).status())
                    .isEqualTo(400);
        }
    }

    @Test
    void manySmallChunksAreBoundedToo() throws IOException {
        try (RawClient client = echo.client()) {
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
        try (RawClient client = echo.client()) {
            assertThat(client.send(start + "a".repeat(LIMITS.head() - start.length()) + "\r\n\r\n")
                            .reply()
                            .status())
                    .isEqualTo(200);
        }
        try (RawClient client = echo.client()) {
            assertThat(client.send(start + "a".repeat(LIMITS.head() - start.length() + 1) + "\r\n\r\n")
                            .reply()
                            .status())
                    .isEqualTo(431);
        }
        try (RawClient client = echo.client()) {
            assertThat(client.send(start + "a".repeat(2 * LIMITS.head()))
                            .reply()
                            .status())
                    .isEqualTo(431);
        }
    }

    @Test
    void aBodyOfFourMegabytes() throws IOException {
        try (RawClient client = echo.client()) {
            String body = "b".repeat(LIMITS.body());
            RawClient.Reply reply = ask(client, "POST /x HTTP/1.1\nHost: x\nContent-Length: " + body.length(), body);
            assertThat(reply.body()).hasSize("POST /x  ".length() + body.length());
        }
    }

    /** The client is still sending; the answer must reach it all the same. */
    @Test
    void aBodyThatIsTooLargeIsAnsweredBeforeItIsRead() throws IOException {
        try (RawClient client = echo.client()) {
            String body = "b".repeat(LIMITS.body() + 1);
            RawClient.Reply reply = ask(client, "POST /x HTTP/1.1\nHost: x\nContent-Length: " + body.length(), body);
            assertThat(reply.status()).isEqualTo(413);
            assertThat(reply.body()).contains("body_too_large");
        }
    }

    @Test
    void aFailureOfTheHandlerKeepsTheConnection() throws IOException {
        try (RawClient client = echo.client()) {
            RawClient.Reply reply = client.get("/fail").reply();
            assertThat(reply.status()).isEqualTo(503);
            assertThat(reply.headers()).containsEntry("retry-after", "2");
            assertThat(client.get("/x").reply().status()).isEqualTo(200);
        }
    }
}
