package dev.starforge.serve.pool.proxy;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;

/** A program that answers like no worker would: each request with the bytes that a test gives, after which it closes the connection. */
public final class RawWorker implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final UnaryOperator<String> answer;

    /** Heads and bodies of the requests. */
    public final List<String> requests = new CopyOnWriteArrayList<>();

    /** Whether connections stay open after a response, until the pool closes them. */
    public volatile boolean keepsConnections;

    /** @param answer from the first line of a request to the bytes of its response, in ISO 8859-1 */
    public RawWorker(UnaryOperator<String> answer) throws IOException {
        this.answer = answer;
        Thread.ofVirtual().start(this::accept);
    }

    /** One that is healthy, and answers requests for completions in its own way. */
    public static RawWorker healthy(String completion) throws IOException {
        String health = "{\"status\":\"ok\",\"worker_id\":\"raw\",\"model\":\"raw\"}";
        return new RawWorker(line -> line.startsWith("GET /health") ? ok("application/json", health) : completion);
    }

    public static String ok(String type, String body) {
        return "HTTP/1.1 200 OK\r\nContent-Type: " + type + "\r\nContent-Length: " + body.length() + "\r\n\r\n" + body;
    }

    public URI uri() {
        return URI.create("http://127.0.0.1:" + listener.getLocalPort());
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
            InputStream in = new BufferedInputStream(socket.getInputStream());
            StringBuilder request = new StringBuilder();
            while (request.indexOf("\r\n\r\n") < 0) {
                int c = in.read();
                if (c < 0) {
                    return;
                }
                request.append((char) c);
            }
            int length = Integer.parseInt(request.toString().replaceAll("(?s).*Content-Length: ([0-9]+).*", "$1"));
            request.append(new String(in.readNBytes(length), StandardCharsets.ISO_8859_1));
            requests.add(request.toString());
            socket.getOutputStream().write(answer.apply(request.toString()).getBytes(StandardCharsets.ISO_8859_1));
            while (keepsConnections && in.read() >= 0) {
                // the pool sends nothing more
            }
        } catch (IOException e) {
            // the pool has closed the connection
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
