package dev.starforge.serve.pool.proxy;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;

/**
 * A connection of its own for a request to a worker: blocking reads on the virtual thread that serves the client. {@link #close}, from
 * any thread, ends it, so that the worker stops generating when the client disconnects. A request is sent once.
 *
 * <p>What a worker sends is checked as strictly as what a client sends: a registered worker is another program, and a client must not
 * see in its response what the pool did not.
 *
 * <p>Not {@code java.net.http}: with 200 streams it takes 67 us of the pool's CPU time per token instead of 47, 130 MB more memory,
 * and keeps idle connections to workers (ADR 11).
 */
final class WorkerConnection implements AutoCloseable {
    /** Bytes of a response to a request of the pool itself. */
    static final int MAX_HEALTH = 1 << 20;

    /** Bytes of a response to a client. */
    static final int MAX_BODY = 64 << 20;

    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(2);
    private static final int MAX_LINE = 16 << 10;
    private static final int MAX_HEADERS = 100;
    private static final int MAX_TRAILERS = 32;

    private final Socket socket;
    private final DeadlineStream raw;
    private final InputStream in;
    private final String host;

    private WorkerConnection(Socket socket, DeadlineStream raw, String host) {
        this.socket = socket;
        this.raw = raw;
        this.in = new BufferedInputStream(raw);
        this.host = host;
    }

    /** Limits the time of all reads together: a response that trickles must not keep its reader. */
    private static final class DeadlineStream extends InputStream {
        private final Socket socket;
        private final InputStream in;
        private long deadline;
        private boolean limited;

        DeadlineStream(Socket socket) throws IOException {
            this.socket = socket;
            this.in = socket.getInputStream();
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] into, int from, int count) throws IOException {
            if (limited) {
                long millis = (deadline - System.nanoTime()) / 1_000_000;
                if (millis <= 0) {
                    throw new SocketTimeoutException("Read timed out");
                }
                socket.setSoTimeout((int) Math.min(millis, Integer.MAX_VALUE));
            }
            return in.read(into, from, count);
        }
    }

    static WorkerConnection open(URI worker) throws IOException {
        Socket socket = new Socket();
        try {
            socket.setOption(StandardSocketOptions.TCP_NODELAY, true);
            int port = port(worker);
            socket.connect(new InetSocketAddress(worker.getHost(), port), (int) CONNECT_TIMEOUT.toMillis());
            return new WorkerConnection(socket, new DeadlineStream(socket), worker.getHost() + ":" + port);
        } catch (IOException | RuntimeException e) {
            socket.close();
            throw e;
        }
    }

    static int port(URI worker) {
        return worker.getPort() < 0 ? 80 : worker.getPort();
    }

    /** Everything that is read from now on must arrive within {@code time}. */
    WorkerConnection withDeadline(Duration time) {
        raw.limited = true;
        raw.deadline = System.nanoTime() + time.toNanos();
        return this;
    }

    WorkerConnection withoutDeadline() throws IOException {
        raw.limited = false;
        socket.setSoTimeout(0);
        return this;
    }

    /** @param last whether the worker closes the connection after its response */
    void send(String method, String target, Map<String, String> headers, byte[] body, boolean last) throws IOException {
        StringBuilder head = new StringBuilder();
        head.append(method)
                .append(' ')
                .append(target)
                .append(" HTTP/1.1\r\nHost: ")
                .append(host);
        head.append(last ? "\r\nConnection: close" : "")
                .append("\r\nContent-Length: ")
                .append(body.length)
                .append("\r\n");
        headers.forEach(
                (name, value) -> head.append(name).append(": ").append(value).append("\r\n"));
        ByteArrayOutputStream all = new ByteArrayOutputStream(head.length() + 2 + body.length);
        all.write(head.append("\r\n").toString().getBytes(StandardCharsets.ISO_8859_1));
        all.write(body);
        socket.getOutputStream().write(all.toByteArray());
    }

    /** Reads the status and headers. */
    ResponseHead readHead() throws IOException {
        String status = line();
        ResponseHead.Builder head = ResponseHead.ofStatusLine(status);
        int count = 0;
        for (String line = line(); !line.isEmpty(); line = line()) {
            if (++count > MAX_HEADERS) {
                throw malformed("at most " + MAX_HEADERS + " headers");
            }
            head.add(line);
        }
        return head.build();
    }

    static IOException malformed(String expected) {
        return new IOException("worker: expected " + expected + " in a response");
    }

    /** A line up to its CR LF, without other control characters. */
    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int c = in.read(); c != '\r'; c = in.read()) {
            if (c < 0) {
                throw cutOff();
            }
            if (c < ' ' && c != '\t' || c == 0x7f) {
                throw malformed("no control characters");
            }
            if (line.length() >= MAX_LINE) {
                throw malformed("lines of at most " + MAX_LINE + " bytes");
            }
            line.append((char) c);
        }
        if (in.read() != '\n') {
            throw malformed("CR LF at the end of a line");
        }
        return line.toString();
    }

    private static EOFException cutOff() {
        return new EOFException("worker: the connection ended within a response");
    }

    /** The next whole chunk, so that no event is relayed in part; empty after the last one. */
    Optional<byte[]> readChunk() throws IOException {
        String line = line();
        int extension = line.indexOf(';');
        String digits = (extension < 0 ? line : line.substring(0, extension)).strip();
        if (!digits.matches("[0-9a-fA-F]{1,8}")) {
            throw malformed("the size of a chunk");
        }
        byte[] bytes = readExactly(HexFormat.fromHexDigitsToLong(digits), MAX_BODY);
        if (bytes.length == 0) {
            readTrailers();
            return Optional.empty();
        }
        if (!line().isEmpty()) {
            throw malformed("CR LF after a chunk");
        }
        return Optional.of(bytes);
    }

    private void readTrailers() throws IOException {
        for (int i = 0; !line().isEmpty(); i++) {
            if (i == MAX_TRAILERS) {
                throw malformed("at most " + MAX_TRAILERS + " trailers");
            }
        }
    }

    /** Reads a whole body of at most {@code limit} bytes. */
    byte[] readBody(ResponseHead head, int limit) throws IOException {
        if (!head.hasBody()) {
            return new byte[0];
        }
        if (head.isChunked()) {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            for (Optional<byte[]> chunk = readChunk(); chunk.isPresent(); chunk = readChunk()) {
                if (chunk.get().length > limit - all.size()) {
                    throw tooLong(limit);
                }
                all.write(chunk.get());
            }
            return all.toByteArray();
        }
        if (head.length().isPresent()) {
            return readExactly(head.length().getAsLong(), limit);
        }
        byte[] all = in.readNBytes(limit + 1);
        if (all.length > limit) {
            throw tooLong(limit);
        }
        return all;
    }

    private byte[] readExactly(long count, int limit) throws IOException {
        if (count > limit) {
            throw tooLong(limit);
        }
        byte[] bytes = in.readNBytes((int) count);
        if (bytes.length < count) {
            throw cutOff();
        }
        return bytes;
    }

    private static IOException tooLong(int limit) {
        return malformed("at most " + limit + " bytes");
    }

    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException e) {
            // nothing more to do
        }
    }
}
