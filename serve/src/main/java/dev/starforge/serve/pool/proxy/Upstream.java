package dev.starforge.serve.pool.proxy;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * One request to a worker on a connection of its own: blocking reads on a virtual thread, and {@link #close} from any thread ends
 * it, which is how a client that leaves is passed on. The JDK's client does the same with several threads and buffers between, which a
 * token would wait for.
 */
final class Upstream implements AutoCloseable {
    private static final Duration CONNECT = Duration.ofSeconds(2);
    private static final int LONGEST_LINE = 16 << 10;
    private static final int LONGEST_BODY = 64 << 20;

    private final Socket socket;
    private final InputStream in;
    private final String host;

    private Upstream(Socket socket, InputStream in, String host) {
        this.socket = socket;
        this.in = in;
        this.host = host;
    }

    static Upstream open(URI worker) throws IOException {
        Socket socket = new Socket();
        try {
            socket.setOption(StandardSocketOptions.TCP_NODELAY, true);
            int port = worker.getPort() < 0 ? 80 : worker.getPort();
            socket.connect(new InetSocketAddress(worker.getHost(), port), (int) CONNECT.toMillis());
            return new Upstream(
                    socket, new BufferedInputStream(socket.getInputStream()), worker.getHost() + ":" + port);
        } catch (IOException failure) {
            socket.close();
            throw failure;
        }
    }

    /** No answer within so long is a failure. */
    Upstream withTimeout(Duration time) throws IOException {
        socket.setSoTimeout((int) time.toMillis());
        return this;
    }

    void send(String method, String target, Map<String, String> headers, byte[] body) throws IOException {
        StringBuilder head = new StringBuilder();
        head.append(method)
                .append(' ')
                .append(target)
                .append(" HTTP/1.1\r\nHost: ")
                .append(host);
        head.append("\r\nConnection: close\r\nContent-Length: ")
                .append(body.length)
                .append("\r\n");
        headers.forEach(
                (name, value) -> head.append(name).append(": ").append(value).append("\r\n"));
        ByteArrayOutputStream all = new ByteArrayOutputStream(head.length() + 2 + body.length);
        all.write(head.append("\r\n").toString().getBytes(StandardCharsets.ISO_8859_1));
        all.write(body);
        socket.getOutputStream().write(all.toByteArray());
    }

    /**
     * The beginning of an answer.
     *
     * @param headers by lower-case names
     */
    record Begun(int status, Map<String, String> headers) {
        Optional<String> header(String name) {
            return Optional.ofNullable(headers.get(name));
        }

        boolean isChunked() {
            return headers.getOrDefault("transfer-encoding", "").equalsIgnoreCase("chunked");
        }

        String type() {
            return headers.getOrDefault("content-type", "application/octet-stream");
        }

        boolean isEventStream() {
            return isChunked() && type().startsWith("text/event-stream");
        }
    }

    Begun begin() throws IOException {
        String[] words = line().split(" ", 3);
        if (words.length < 2 || !words[0].startsWith("HTTP/1.") || !words[1].matches("[1-5][0-9][0-9]")) {
            throw new IOException("worker: expected an answer of HTTP/1.1");
        }
        Map<String, String> headers = new HashMap<>();
        for (String line = line(); !line.isEmpty(); line = line()) {
            int colon = line.indexOf(':');
            if (colon < 1 || headers.size() > 100) {
                throw new IOException("worker: expected NAME: VALUE in a header of its answer");
            }
            headers.put(
                    line.substring(0, colon).toLowerCase(Locale.ROOT),
                    line.substring(colon + 1).strip());
        }
        return new Begun(Integer.parseInt(words[1]), headers);
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c = in.read(); c != '\n'; c = in.read()) {
            if (c < 0) {
                throw new EOFException("worker: the connection ended within an answer");
            }
            if (line.length() >= LONGEST_LINE) {
                throw new IOException("worker: expected lines of at most " + LONGEST_LINE + " bytes in an answer");
            }
            line.append((char) c);
        }
        return line.toString().strip();
    }

    /** The next chunk, whole, so that no event is passed on in part; empty after the last. */
    Optional<byte[]> chunk() throws IOException {
        String size = line();
        int extension = size.indexOf(';');
        byte[] bytes;
        try {
            bytes = exactly(HexFormat.fromHexDigitsToLong(extension < 0 ? size : size.substring(0, extension)));
        } catch (IllegalArgumentException malformed) {
            throw new IOException("worker: expected the size of a chunk", malformed);
        }
        line();
        return bytes.length == 0 ? Optional.empty() : Optional.of(bytes);
    }

    /** A body that does not come in events. */
    byte[] whole(Begun begun) throws IOException {
        if (begun.isChunked()) {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            for (Optional<byte[]> chunk = chunk(); chunk.isPresent(); chunk = chunk()) {
                all.write(chunk.get());
                if (all.size() > LONGEST_BODY) {
                    throw tooLong();
                }
            }
            return all.toByteArray();
        }
        String length = begun.header("content-length").orElse("");
        if (!length.matches("[0-9]{1,9}")) {
            return in.readNBytes(LONGEST_BODY);
        }
        return exactly(Integer.parseInt(length));
    }

    private byte[] exactly(long count) throws IOException {
        if (count < 0 || count > LONGEST_BODY) {
            throw tooLong();
        }
        byte[] bytes = in.readNBytes((int) count);
        if (bytes.length < count) {
            throw new EOFException("worker: the connection ended within an answer");
        }
        return bytes;
    }

    private static IOException tooLong() {
        return new IOException("worker: expected an answer of at most " + LONGEST_BODY + " bytes");
    }

    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException failure) {
            // closed is closed
        }
    }
}
