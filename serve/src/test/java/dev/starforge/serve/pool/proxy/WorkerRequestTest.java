package dev.starforge.serve.pool.proxy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class WorkerRequestTest {
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

        HttpRequest request() {
            return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + listener.getLocalPort() + "/v1/completions"))
                    .POST(BodyPublishers.ofString("{}"))
                    .build();
        }

        @Override
        public void close() throws IOException {
            listener.close();
        }
    }

    /** The second request uses the kept-alive connection, where clients that retry would send it again. */
    @Test
    void aPostIsNotSentAgainWhenAKeptAliveConnectionCloses() throws Exception {
        try (ClosingServer server = new ClosingServer(1, ANSWER);
                HttpClient client = WorkerRequest.client()) {
            try (WorkerRequest request = WorkerRequest.send(client, server.request())) {
                assertThat(WorkerRequest.body(request.response())).asString().isEqualTo("ok");
            }
            try (WorkerRequest request = WorkerRequest.send(client, server.request())) {
                assertThatThrownBy(request::response).isInstanceOf(IOException.class);
            }
            assertThat(server.requests).hasValue(2);
        }
    }

    @Test
    void closingARequestBeforeItsResponseClosesTheConnection() throws Exception {
        try (ClosingServer server = new ClosingServer(1, "");
                HttpClient client = WorkerRequest.client()) {
            WorkerRequest request = WorkerRequest.send(client, server.request());
            while (server.requests.get() == 0) {
                Thread.onSpinWait();
            }
            request.close();
            assertThat(server.disconnected.await(10, TimeUnit.SECONDS)).isTrue();
            assertThatThrownBy(request::response).isInstanceOf(IOException.class);
        }
    }

    @Test
    void closingARequestWithinItsStreamClosesTheConnectionAndEndsTheReader() throws Exception {
        try (ClosingServer server = new ClosingServer(1, STREAM);
                HttpClient client = WorkerRequest.client()) {
            WorkerRequest request = WorkerRequest.send(client, server.request());
            EventReader events = new EventReader(request.response().body());
            Thread closer = Thread.ofVirtual().start(request::close);
            assertThatThrownBy(events::next).isInstanceOf(IOException.class);
            closer.join();
            assertThat(server.disconnected.await(10, TimeUnit.SECONDS)).isTrue();
        }
    }

    @Test
    void aStreamIsSplitIntoWholeEvents() throws IOException {
        byte[] bytes = "data: 1\n\ndata: 2\nid: 3\n\n".getBytes(StandardCharsets.US_ASCII);
        EventReader events = new EventReader(new ByteArrayInputStream(bytes));
        assertThat(events.next().orElseThrow()).asString().isEqualTo("data: 1\n\n");
        assertThat(events.next().orElseThrow()).asString().isEqualTo("data: 2\nid: 3\n\n");
        assertThat(events.next()).isEmpty();
    }

    @Test
    void anEventLongerThanTheBufferIsReadWhole() throws IOException {
        String event = "data: " + "x".repeat(100_000) + "\n\n";
        EventReader events = new EventReader(new ByteArrayInputStream(event.getBytes(StandardCharsets.US_ASCII)));
        assertThat(events.next().orElseThrow()).asString().isEqualTo(event);
    }

    @Test
    void aStreamThatEndsWithinAnEventFails() {
        EventReader events = new EventReader(new ByteArrayInputStream("data: 1\n".getBytes(StandardCharsets.US_ASCII)));
        assertThatThrownBy(events::next).isInstanceOf(EOFException.class);
    }
}
