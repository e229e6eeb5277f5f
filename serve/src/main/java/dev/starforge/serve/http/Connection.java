package dev.starforge.serve.http;

import java.io.IOException;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.util.Arrays;

/** One client: requests one after the other, each answered before the next is looked at. */
final class Connection {
    private static final byte[] END_OF_HEAD = "\r\n\r\n".getBytes(StandardCharsets.US_ASCII);
    private static final Duration FAREWELL = Duration.ofSeconds(2);

    private final Socket socket;
    private final Handler handler;
    private final HttpLimits limits;
    private final Inbox inbox;
    private final ResponseWriter writer;
    private volatile boolean busy;
    private volatile boolean draining;
    private volatile long waitsSince = System.nanoTime();

    Connection(Socket socket, Handler handler, HttpLimits limits, Clock clock) throws IOException {
        this.socket = socket;
        this.handler = handler;
        this.limits = limits;
        socket.setOption(StandardSocketOptions.TCP_NODELAY, true);
        inbox = new Inbox(socket.getInputStream());
        writer = new ResponseWriter(socket.getOutputStream(), clock, inbox::unwatch);
    }

    /** Serves the client until one of the two has had enough. */
    void serve() {
        Thread reader = Thread.ofVirtual().name("http reader").start(inbox::fill);
        try {
            boolean more = true;
            while (more && !draining) {
                more = inbox.hasMore(System.nanoTime() + limits.idleTime().toNanos()) && one();
            }
        } catch (IOException gone) {
            // there is nobody left to tell
        } finally {
            close();
            reader.interrupt();
        }
    }

    /** Whether no request is being answered, so that nothing is lost when this ends. */
    boolean isIdle() {
        return !busy;
    }

    long waitsSince() {
        return waitsSince;
    }

    /** Since when a write waits for the client; 0 when none does. */
    long writesSince() {
        return writer.waitingSince();
    }

    /** Ends after the answer under way, or now if there is none. */
    void drain() {
        draining = true;
        if (!busy) {
            close();
        }
    }

    void close() {
        try {
            socket.close();
        } catch (IOException failure) {
            // closed is closed
        }
    }

    /** Turns a client away for whom there is no room. */
    void refuse(HttpFailure failure) {
        try {
            writer.closeAfter();
            fail(handler.describe(failure), failure);
        } catch (IOException gone) {
            // there is nobody left to tell
        } finally {
            close();
        }
    }

    /** One request with its answer; whether another may follow. */
    private boolean one() throws IOException {
        writer.next();
        Head head;
        try {
            head = Head.parse(head());
        } catch (HttpFailure failure) {
            writer.closeAfter();
            fail(handler.describe(failure), failure);
            return farewell();
        }
        busy = true;
        try {
            return answer(head);
        } catch (HttpFailure failure) {
            writer.closeAfter();
            fail(handler.describe(head, failure), failure);
            return farewell();
        } finally {
            busy = false;
            waitsSince = System.nanoTime();
        }
    }

    private byte[] head() throws IOException {
        long deadline = System.nanoTime() + limits.headTime().toNanos();
        HttpFailure tooLong =
                new HttpFailure(431, "header_too_large", "the header is larger than " + limits.head() + " bytes");
        byte[] bytes = inbox.until(END_OF_HEAD, limits.head(), deadline, tooLong);
        // an empty line before a request is a habit of old clients
        int begin = bytes.length > 2 && bytes[0] == '\r' && bytes[1] == '\n' ? 2 : 0;
        return Arrays.copyOfRange(bytes, begin, bytes.length);
    }

    private boolean answer(Head head) throws IOException {
        try (Handler.Permit _ = handler.admit(head)) {
            BodyReader.check(head, limits.body());
            if (head.headers().containsKey("expect")) {
                if (!head.lists("expect", "100-continue")) {
                    throw new HttpFailure(417, "expectation_failed", "expected no Expect but 100-continue");
                }
                writer.interim();
            }
            long deadline = System.nanoTime() + limits.bodyTime().toNanos();
            byte[] body = new BodyReader(inbox, limits.body(), deadline).read(head);
            return handle(new Exchange(head, body, writer));
        }
    }

    private boolean handle(Exchange exchange) throws IOException {
        inbox.watch(exchange::leave);
        try {
            handler.handle(exchange);
        } catch (HttpFailure failure) {
            if (writer.isBegun()) {
                return false;
            }
            Handler.Failed failed = handler.describe(exchange.head(), failure);
            failed.headers().forEach(exchange::header);
            exchange.respond(failure.status(), "application/json", failed.json());
        } catch (IOException gone) {
            exchange.leave();
            throw gone;
        } finally {
            inbox.unwatch();
        }
        if (!writer.isBegun()) {
            throw new IllegalStateException(
                    "handle: no answer to " + exchange.head().path());
        }
        return writer.canContinue() && !exchange.isGone();
    }

    private void fail(Handler.Failed failed, HttpFailure failure) throws IOException {
        writer.whole(failure.status(), "application/json", failed.headers(), failed.json());
    }

    /**
     * Waits a little for the client to read the error and close: with bytes of it unread, closing at once would reset the
     * connection, and the error would be lost.
     */
    private boolean farewell() throws IOException {
        socket.shutdownOutput();
        inbox.discard(2L * limits.body(), System.nanoTime() + FAREWELL.toNanos());
        return false;
    }
}
