package dev.starforge.serve.http;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Reads the body of a request, with Content-Length or chunked, up to the limit. */
final class BodyReader {
    private static final byte[] LINE = {'\r', '\n'};
    private static final int MAX_LINE = 256;
    private static final int MAX_TRAILERS = 32;
    private static final int INITIAL_BUFFER = 64 << 10;

    private final ConnectionReader reader;
    private final int limit;
    private final long deadline;

    BodyReader(ConnectionReader inbox, int limit, long deadline) {
        this.reader = inbox;
        this.limit = limit;
        this.deadline = deadline;
    }

    /** Rejects a Content-Length beyond the limit before reading the body. */
    static void check(RequestHead head, int limit) {
        if (!head.isChunked() && head.length() > limit) {
            throw tooLarge(limit);
        }
    }

    byte[] read(RequestHead head) throws IOException {
        return head.isChunked() ? chunks() : whole((int) head.length());
    }

    /** Allocates memory as bytes arrive, not by the declared length. */
    private byte[] whole(int length) throws IOException {
        byte[] body = new byte[Math.min(length, INITIAL_BUFFER)];
        int done = 0;
        while (done < length) {
            if (done == body.length) {
                body = Arrays.copyOf(body, Math.min(length, 2 * done));
            }
            reader.read(body, done, body.length - done, deadline);
            done = body.length;
        }
        return body;
    }

    private byte[] chunks() throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        for (int size = size(); size > 0; size = size()) {
            if (size > limit - body.size()) {
                throw tooLarge(limit);
            }
            byte[] chunk = new byte[size];
            reader.read(chunk, 0, size, deadline);
            body.write(chunk);
            if (line().length != 0) {
                throw RequestHead.malformed("a chunk is longer than its size");
            }
        }
        for (int i = 0; line().length > 0; i++) {
            if (i == MAX_TRAILERS) {
                throw RequestHead.malformed("more than " + MAX_TRAILERS + " trailers");
            }
        }
        return body.toByteArray();
    }

    /** The size of a chunk, in hex; chunk extensions are ignored. */
    private int size() throws IOException {
        String line = new String(line(), StandardCharsets.ISO_8859_1);
        int end = line.indexOf(';');
        String digits = (end < 0 ? line : line.substring(0, end)).strip();
        boolean plain = digits.chars().allMatch(c -> Character.digit(c, 16) >= 0 && c < 128);
        if (digits.isEmpty() || !plain) {
            throw RequestHead.malformed("expected the size of a chunk in hex");
        }
        if (digits.length() > 7) {
            throw tooLarge(limit);
        }
        return Integer.parseInt(digits, 16);
    }

    private byte[] line() throws IOException {
        return reader.readUntil(LINE, MAX_LINE, deadline, RequestHead.malformed("a line of a chunk is too long"));
    }

    private static HttpException tooLarge(int limit) {
        return new HttpException(413, "body_too_large", "the body is larger than " + limit + " bytes");
    }
}
