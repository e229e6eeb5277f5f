package dev.starforge.serve;

import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** A client of bytes, for what a well-behaved one would not do. */
public final class RawClient implements AutoCloseable {
    private final Socket socket;
    private final InputStream in;

    public RawClient(int port) throws IOException {
        socket = new Socket("127.0.0.1", port);
        socket.setSoTimeout(10_000);
        in = new BufferedInputStream(socket.getInputStream());
    }

    public record Reply(int status, Map<String, String> headers, String body) {}

    public RawClient send(String text) throws IOException {
        socket.getOutputStream().write(text.getBytes(StandardCharsets.ISO_8859_1));
        socket.getOutputStream().flush();
        return this;
    }

    public RawClient post(String path, String json) throws IOException {
        byte[] body = json.getBytes(StandardCharsets.UTF_8);
        send("POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + body.length + "\r\n\r\n");
        socket.getOutputStream().write(body);
        return this;
    }

    public RawClient get(String path) throws IOException {
        return send("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    }

    public Socket socket() {
        return socket;
    }

    /** The next line, without its end. */
    public String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c = in.read(); c != '\n'; c = in.read()) {
            if (c < 0) {
                throw new EOFException("the server closed the connection after: " + line);
            }
            line.append((char) c);
        }
        return line.toString().strip();
    }

    /** A whole answer. */
    public Reply reply() throws IOException {
        int status = Integer.parseInt(line().split(" ")[1]);
        Map<String, String> headers = new LinkedHashMap<>();
        for (String line = line(); !line.isEmpty(); line = line()) {
            int colon = line.indexOf(':');
            headers.put(
                    line.substring(0, colon).toLowerCase(Locale.ROOT),
                    line.substring(colon + 1).strip());
        }
        StringBuilder body = new StringBuilder();
        if ("chunked".equals(headers.get("transfer-encoding"))) {
            for (int size = Integer.parseInt(line(), 16); size > 0; size = Integer.parseInt(line(), 16)) {
                body.append(new String(in.readNBytes(size), StandardCharsets.UTF_8));
                line();
            }
            line();
        } else if (headers.containsKey("content-length")) {
            body.append(
                    new String(in.readNBytes(Integer.parseInt(headers.get("content-length"))), StandardCharsets.UTF_8));
        }
        return new Reply(status, headers, body.toString());
    }

    /** Reads the head of a streamed answer away. */
    public RawClient openStream() throws IOException {
        for (String line = line(); !line.isEmpty(); line = line()) {
            // headers
        }
        return this;
    }

    /** The data of the next server-sent event of a chunked answer. */
    public String event() throws IOException {
        while (true) {
            String line = line();
            if (line.startsWith("data: ")) {
                byte[] data = line.substring("data: ".length()).getBytes(StandardCharsets.ISO_8859_1);
                return new String(data, StandardCharsets.UTF_8);
            }
            if (line.equals("0")) {
                throw new EOFException("the stream has ended");
            }
        }
    }

    /** Everything up to the end of the connection. */
    public String rest() throws IOException {
        return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }

    /** Whether the server has closed the connection. */
    public boolean isClosed() throws IOException {
        return in.read() < 0;
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
