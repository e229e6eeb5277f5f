package dev.starforge.serve.http;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Map;

/**
 * Writes responses: with Content-Length, chunked, or, for HTTP/1.0, up to the end of the connection. {@link #writingSince} is the start
 * of a blocked write.
 */
final class ResponseWriter {
    private static final byte[] LAST_CHUNK = "0\r\n\r\n".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] LINE = {'\r', '\n'};
    private static final Map<Integer, String> REASONS = Map.ofEntries(
            Map.entry(200, "OK"),
            Map.entry(201, "Created"),
            Map.entry(202, "Accepted"),
            Map.entry(400, "Bad Request"),
            Map.entry(401, "Unauthorized"),
            Map.entry(403, "Forbidden"),
            Map.entry(404, "Not Found"),
            Map.entry(405, "Method Not Allowed"),
            Map.entry(408, "Request Timeout"),
            Map.entry(413, "Content Too Large"),
            Map.entry(417, "Expectation Failed"),
            Map.entry(429, "Too Many Requests"),
            Map.entry(431, "Request Header Fields Too Large"),
            Map.entry(500, "Internal Server Error"),
            Map.entry(501, "Not Implemented"),
            Map.entry(503, "Service Unavailable"),
            Map.entry(504, "Gateway Timeout"),
            Map.entry(505, "HTTP Version Not Supported"));

    private final OutputStream out;
    private final Clock clock;
    private final Runnable beforeEnd;
    private volatile long writingSince;
    private boolean begun;
    private boolean complete;
    private boolean closes;

    /** @param beforeEnd runs before the last bytes of a response, after which the client may send its next request */
    ResponseWriter(OutputStream out, Clock clock, Runnable beforeEnd) {
        this.out = out;
        this.clock = clock;
        this.beforeEnd = beforeEnd;
    }

    /** Start of the current write, by {@link System#nanoTime}; 0 if there is none. */
    long writingSince() {
        return writingSince;
    }

    /** Resets for the next response of the connection. */
    void next() {
        begun = false;
        complete = false;
        closes = false;
    }

    boolean isBegun() {
        return begun;
    }

    /** Returns true if the response is complete and the connection can be reused. */
    boolean canContinue() {
        return complete && !closes;
    }

    /** Closes the connection after this response. */
    void closeAfter() {
        closes = true;
    }

    void interim() throws IOException {
        send("HTTP/1.1 100 Continue\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
    }

    void whole(RequestHead head, int status, String type, Map<String, String> headers, byte[] content)
            throws IOException {
        closes |= !head.keepsAlive();
        whole(status, type, headers, content, head.isForHead());
    }

    void whole(int status, String type, Map<String, String> headers, byte[] content) throws IOException {
        whole(status, type, headers, content, false);
    }

    private void whole(int status, String type, Map<String, String> headers, byte[] content, boolean headOnly)
            throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.write(begin(status, type, "Content-Length: " + content.length + "\r\n", headers));
        if (!headOnly) {
            bytes.write(content);
        }
        beforeEnd.run();
        send(bytes.toByteArray());
        complete = true;
    }

    ResponseStream stream(RequestHead head, String type, Map<String, String> headers) throws IOException {
        boolean chunked = head.minor() == 1;
        closes |= !head.keepsAlive();
        send(begin(200, type, chunked ? "Transfer-Encoding: chunked\r\n" : "", headers));
        return new ResponseStream() {
            @Override
            public void write(byte[] part) throws IOException {
                if (!chunked) {
                    send(part);
                } else if (part.length > 0) {
                    ByteArrayOutputStream chunk = new ByteArrayOutputStream(part.length + 12);
                    chunk.write(Integer.toHexString(part.length).getBytes(StandardCharsets.US_ASCII));
                    chunk.write(LINE);
                    chunk.write(part);
                    chunk.write(LINE);
                    send(chunk.toByteArray());
                }
            }

            @Override
            public void finish() throws IOException {
                beforeEnd.run();
                if (chunked) {
                    send(LAST_CHUNK);
                }
                complete = true;
            }
        };
    }

    private byte[] begin(int status, String type, String framing, Map<String, String> headers) {
        if (begun) {
            throw new IllegalStateException("respond: the response has already begun");
        }
        begun = true;
        StringBuilder text = new StringBuilder();
        text.append("HTTP/1.1 ").append(status).append(' ').append(REASONS.getOrDefault(status, "Error"));
        text.append("\r\nDate: ")
                .append(DateTimeFormatter.RFC_1123_DATE_TIME.format(
                        clock.instant().atZone(ZoneOffset.UTC)));
        text.append("\r\nContent-Type: ").append(type).append("\r\n").append(framing);
        headers.forEach(
                (name, value) -> text.append(name).append(": ").append(value).append("\r\n"));
        if (closes) {
            text.append("Connection: close\r\n");
        }
        return text.append("\r\n").toString().getBytes(StandardCharsets.ISO_8859_1);
    }

    private void send(byte[] bytes) throws IOException {
        writingSince = System.nanoTime() | 1;
        try {
            out.write(bytes);
            out.flush();
        } finally {
            writingSince = 0;
        }
    }
}
