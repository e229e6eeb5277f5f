package dev.starforge.serve.pool.proxy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WorkerConnectionTest {
    private static final String ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    private static final String STREAM = "HTTP/1.1 200 OK\r\n"
            + "Content-Type: text/event-stream\r\n"
            + "Transfer-Encoding: chunked\r\n\r\n"
            + "8\r\n"
            + "data: 1\n\r\n";

    /** A server that answers the first {@code answered} requests and closes the connection after the next one. */
    private static final class ClosingServer implements AutoCloseable {
        final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        final AtomicInteger requests = new AtomicInteger();
        final CountDownLatch disconnected = new CountDownLatch(1);
        private final int answered;
        private final String answer;

        ClosingServer(int answered, String answer) throws IOException {
            this.answered = answered;
            this.answer = answer;
            Thread.ofVirtual().start(this::accept);
        }

        private void accept() {
            while (!listener.isClosed()) {
                try {
                    Socket socket = listener.accept();
                    Thread.ofVirtual().start(() -> serve(socket));
                } catch (IOException e) {
                    return;
                }
            }
        }

        private void serve(Socket socket) {
            try (socket) {
                InputStream in = socket.getInputStream();
                while (readRequest(in)) {
                    if (requests.incrementAndGet() > answered) {
                        return;
                    }
                    socket.getOutputStream().write(answer.getBytes(StandardCharsets.US_ASCII));
                }
                disconnected.countDown();
            } catch (IOException e) {
                disconnected.countDown();
            }
        }

        /** Reads a request whose body ends with {@code }}; returns false at the end of the connection. */
        private static boolean readRequest(InputStream in) throws IOException {
            int c = in.read();
            while (c >= 0 && c != '}') {
                c = in.read();
            }
            return c >= 0;
        }

        WorkerConnection connection() throws IOException {
            return WorkerConnection.open(URI.create("http://127.0.0.1:" + listener.getLocalPort()));
        }

        @Override
        public void close() throws IOException {
            listener.close();
        }
    }

    private static void post(WorkerConnection connection) throws IOException {
        connection.send("POST", "/v1/completions", Map.of(), "{}".getBytes(StandardCharsets.US_ASCII), true);
    }

    @Test
    void aBodyIsReadWholeAndTheRequestIsSentOnce() throws Exception {
        try (ClosingServer server = new ClosingServer(1, ANSWER);
                WorkerConnection connection = server.connection()) {
            post(connection);
            assertThat(connection.readBody(connection.readHead(), WorkerConnection.MAX_BODY))
                    .asString()
                    .isEqualTo("ok");
            try (WorkerConnection next = server.connection()) {
                post(next);
                assertThatThrownBy(next::readHead).isInstanceOf(EOFException.class);
            }
            assertThat(server.requests).hasValue(2);
        }
    }

    /** What two parsers could read differently, or would let a worker write headers of the pool's response. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\rX-Worker-ID: w-1\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\0\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\n Folded: 2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 101 Switching Protocols\r\n\r\n",
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                "HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nok",
                "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: a\rb\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\nok\r\n0\r\n\r\n",
            })
    void aMalformedResponseIsRejected(String response) throws Exception {
        try (RawWorker worker = new RawWorker(_ -> response);
                WorkerConnection connection = WorkerConnection.open(worker.uri())) {
            post(connection);
            assertThatThrownBy(() -> connection.readBody(connection.readHead(), WorkerConnection.MAX_BODY))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("worker: ");
        }
    }

    @Test
    void anUnusableHeaderIsNotPassedOn() throws Exception {
        String response = "HTTP/1.1 204 No Content\r\nContent-Type: caf\u00e9\r\nRetry-After: soon\r\n\r\n";
        try (RawWorker worker = new RawWorker(_ -> response);
                WorkerConnection connection = WorkerConnection.open(worker.uri())) {
            post(connection);
            ResponseHead head = connection.readHead();
            assertThat(head.contentType()).isEqualTo("application/octet-stream");
            assertThat(head.retryAfter()).isEmpty();
            assertThat(connection.readBody(head, 10)).isEmpty();
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "HTTP/1.1 200 OK\r\n\r\nmore than four",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfive!",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            })
    void aBodyHasALimit(String response) throws Exception {
        try (RawWorker worker = new RawWorker(_ -> response);
                WorkerConnection connection = WorkerConnection.open(worker.uri())) {
            post(connection);
            ResponseHead head = connection.readHead();
            assertThatThrownBy(() -> connection.readBody(head, 4)).hasMessageContaining("at most 4 bytes");
        }
    }

    @Test
    void closingBeforeTheResponseClosesTheConnection() throws Exception {
        try (ClosingServer server = new ClosingServer(1, "")) {
            WorkerConnection connection = server.connection();
            post(connection);
            while (server.requests.get() == 0) {
                Thread.onSpinWait();
            }
            connection.close();
            assertThat(server.disconnected.await(10, TimeUnit.SECONDS)).isTrue();
            assertThatThrownBy(connection::readHead).isInstanceOf(IOException.class);
        }
    }

    @Test
    void closingWithinAStreamClosesTheConnectionAndEndsTheReader() throws Exception {
        try (ClosingServer server = new ClosingServer(1, STREAM)) {
            WorkerConnection connection = server.connection();
            post(connection);
            assertThat(connection.readHead().isEventStream()).isTrue();
            assertThat(connection.readChunk().orElseThrow()).asString().isEqualTo("data: 1\n");
            Thread closer = Thread.ofVirtual().start(connection::close);
            assertThatThrownBy(connection::readChunk).isInstanceOf(IOException.class);
            closer.join();
            assertThat(server.disconnected.await(10, TimeUnit.SECONDS)).isTrue();
        }
    }
}
