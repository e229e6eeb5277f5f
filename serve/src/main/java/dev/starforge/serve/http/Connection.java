package dev.starforge.serve.http;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.util.Arrays;
import java.util.Optional;
import java.util.function.LongPredicate;

/** One connection: serves its requests one after the other, without pipelining. */
final class Connection {
    private static final byte[] END_OF_HEAD = "\r\n\r\n".getBytes(StandardCharsets.US_ASCII);
    private static final Duration LINGER = Duration.ofSeconds(2);

    private final Socket socket;
    private final Handler handler;
    private final HttpLimits limits;
    private final ByteBudget buffers;
    private final EvictingReserver reserver;
    private final ConnectionReader reader;
    private final ResponseWriter writer;
    private volatile boolean essentialOnly;
    private volatile boolean busy;
    private volatile boolean draining;
    private volatile long idleSince = System.nanoTime();
    private volatile Optional<BodyReader> arriving = Optional.empty();
    private boolean serving; // guarded by this
    private boolean evicted; // guarded by this

    /** Reserves memory for the body of a connection by closing others whose bodies are slow to arrive. */
    interface EvictingReserver {
        boolean reserve(Connection connection, long bytes);
    }

    /** Takes over the socket, and closes it if this fails. */
    Connection(
            Socket socket,
            Handler handler,
            HttpLimits limits,
            ByteBudget buffers,
            EvictingReserver reserver,
            Clock clock)
            throws IOException {
        this.socket = socket;
        this.handler = handler;
        this.limits = limits;
        this.buffers = buffers;
        this.reserver = reserver;
        try {
            socket.setOption(StandardSocketOptions.TCP_NODELAY, true);
            reader = new ConnectionReader(socket.getInputStream(), buffers);
            writer = new ResponseWriter(socket.getOutputStream(), clock, reader::clearOnEnd);
        } catch (IOException e) {
            socket.close();
            throw e;
        }
    }

    /** Serves requests until the connection ends. */
    void serve() {
        Thread readerThread = Thread.ofVirtual().name("http reader").start(reader::readLoop);
        try {
            boolean more = true;
            while (more && !draining) {
                more = reader.awaitByte(System.nanoTime() + limits.idleTime().toNanos()) && serveOne();
            }
        } catch (IOException e) {
            // the client has disconnected
        } finally {
            close();
            readerThread.interrupt();
            reader.close();
        }
    }

    InetAddress address() {
        return socket.getInetAddress();
    }

    /** Serves one request, which must be an essential one, and closes. */
    void serveEssentialOnly() {
        essentialOnly = true;
    }

    boolean isEssentialOnly() {
        return essentialOnly;
    }

    /** Returns true if no complete request is being served: the connection is idle, or a request is still arriving. */
    synchronized boolean isEvictable() {
        return !serving;
    }

    /** Closes the connection unless a request is being served. */
    synchronized boolean evict() {
        evicted = !serving;
        if (evicted) {
            close();
        }
        return evicted;
    }

    private synchronized void beginServing() throws IOException {
        if (evicted) {
            throw new EOFException("the connection was closed to make room for another");
        }
        serving = true;
        arriving = Optional.empty();
    }

    private synchronized void endServing() {
        serving = false;
        arriving = Optional.empty();
    }

    /** The body that is arriving, if there is one. */
    Optional<BodyReader> arriving() {
        return arriving;
    }

    /** Start of the connection, or the end of its last request. */
    long idleSince() {
        return idleSince;
    }

    /** Start of the blocked write, by {@link System#nanoTime}; 0 if there is none. */
    long writingSince() {
        return writer.writingSince();
    }

    /** Closes after the current response, or now if there is none. */
    void drain() {
        draining = true;
        if (!busy) {
            close();
        }
    }

    void close() {
        try {
            socket.close();
        } catch (IOException e) {
            // nothing more to do
        }
    }

    /** Sends an error and closes. */
    void refuse(HttpException failure) {
        try {
            writer.closeAfter();
            fail(handler.describe(failure), failure);
        } catch (IOException e) {
            // the client has disconnected
        } finally {
            close();
        }
    }

    /** Serves one request. Returns false if the connection must be closed. */
    private boolean serveOne() throws IOException {
        writer.next();
        RequestHead head;
        try {
            head = RequestHead.parse(readHead());
        } catch (HttpException failure) {
            writer.closeAfter();
            fail(handler.describe(failure), failure);
            return lingeringClose();
        }
        busy = true;
        try {
            return answer(head);
        } catch (HttpException failure) {
            writer.closeAfter();
            fail(handler.describe(head, failure), failure);
            return lingeringClose();
        } finally {
            busy = false;
            idleSince = System.nanoTime();
        }
    }

    private byte[] readHead() throws IOException {
        long deadline = System.nanoTime() + limits.headTime().toNanos();
        HttpException tooLong =
                new HttpException(431, "header_too_large", "the header is larger than " + limits.head() + " bytes");
        byte[] bytes = reader.readUntil(END_OF_HEAD, limits.head(), deadline, tooLong);
        // old clients send an empty line before a request
        int begin = bytes.length > 2 && bytes[0] == '\r' && bytes[1] == '\n' ? 2 : 0;
        return Arrays.copyOfRange(bytes, begin, bytes.length);
    }

    private boolean answer(RequestHead head) throws IOException {
        if (essentialOnly) {
            writer.closeAfter();
            if (!handler.isEssential(head)) {
                throw HttpServer.full(limits);
            }
        }
        handler.admit(head);
        BodyReader.check(head, limits.body());
        if (head.isForReading() && (head.isChunked() || head.length() > 0)) {
            throw new HttpException(400, "unexpected_body", "expected no body with " + head.method());
        }
        if (head.headers().containsKey("expect")) {
            if (!head.lists("expect", "100-continue")) {
                throw new HttpException(417, "expectation_failed", "expected no Expect but 100-continue");
            }
            writer.interim();
        }
        long deadline = System.nanoTime() + limits.bodyTime().toNanos();
        LongPredicate byEviction = bytes -> reserver.reserve(this, bytes);
        try (BodyReader body = new BodyReader(reader, limits.body(), buffers, byEviction, deadline)) {
            arriving = Optional.of(body);
            Exchange exchange = new Exchange(head, body.read(head), writer, body::close);
            beginServing();
            return handle(exchange);
        } finally {
            endServing();
        }
    }

    private boolean handle(Exchange exchange) throws IOException {
        reader.onEnd(exchange::disconnect);
        try {
            handler.handle(exchange);
        } catch (HttpException failure) {
            if (writer.isBegun()) {
                return false;
            }
            Handler.ErrorResponse failed = handler.describe(exchange.head(), failure);
            failed.headers().forEach(exchange::header);
            exchange.respond(failure.status(), "application/json", failed.json());
        } catch (IOException e) {
            exchange.disconnect();
            throw e;
        } finally {
            reader.clearOnEnd();
        }
        if (!writer.isBegun()) {
            throw new IllegalStateException(
                    "handle: no response to " + exchange.head().path());
        }
        return writer.canContinue() && !exchange.isDisconnected();
    }

    private void fail(Handler.ErrorResponse failed, HttpException failure) throws IOException {
        writer.whole(failure.status(), "application/json", failed.headers(), failed.json());
    }

    /**
     * Discards unread bytes for a short time while the client reads the error: closing at once with unread bytes would reset the
     * connection, and the client would lose the error.
     */
    private boolean lingeringClose() throws IOException {
        socket.shutdownOutput();
        reader.discard(2L * limits.body(), System.nanoTime() + LINGER.toNanos());
        return false;
    }
}
