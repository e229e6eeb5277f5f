package dev.starforge.serve.http;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Reads the body of a request, of a known length or in chunks; never more of it than the limit. */
final class BodyReader {
    private static final byte[] LINE = {'\r', '\n'};
    private static final int LONGEST_LINE = 256;
    private static final int MOST_TRAILERS = 32;
    private static final int FIRST_BUFFER = 64 << 10;

    private final ConnectionReader reader;
    private final int limit;
    private final long deadline;

    BodyReader(ConnectionReader inbox, int limit, long deadline) {
        this.reader = inbox;
        this.limit = limit;
        this.deadline = deadline;
    }

    /** A length beyond the limit is refused before a byte is read. */
    static void check(RequestHead head, int limit) {
        if (!head.isChunked() && head.length() > limit) {
            throw tooLarge(limit);
        }
    }

    byte[] read(RequestHead head) throws IOException {
        return head.isChunked() ? chunks() : whole((int) head.length());
    }

    /** Memory follows what has come, not what was promised. */
    private byte[] whole(int length) throws IOException {
        byte[] body = new byte[Math.min(length, FIRST_BUFFER)];
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
            if (i == MOST_TRAILERS) {
                throw RequestHead.malformed("more than " + MOST_TRAILERS + " trailers");
            }
        }
        return body.toByteArray();
    }

    /** The size of a chunk in hex; an extension after it is passed over. */
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
        return reader.readUntil(LINE, LONGEST_LINE, deadline, RequestHead.malformed("a line of a chunk is too long"));
    }

    private static HttpException tooLarge(int limit) {
        return new HttpException(413, "body_too_large", "the body is larger than " + limit + " bytes");
    }
}
