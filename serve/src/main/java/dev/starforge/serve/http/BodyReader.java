package dev.starforge.serve.http;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.function.LongPredicate;

/**
 * Reads the body of a request, with Content-Length or chunked, up to the limit. Memory is reserved from the budget of the server as bytes
 * arrive, not by the declared length, and is released by {@link #close}.
 */
final class BodyReader implements AutoCloseable {
    private static final byte[] LINE = {'\r', '\n'};
    private static final int MAX_LINE = 256;
    private static final int MAX_TRAILERS = 32;
    private static final int INITIAL_BUFFER = 4 << 10;

    private final ConnectionReader reader;
    private final int limit;
    private final ByteBudget budget;
    private final LongPredicate reserveByEviction;
    private final long deadline;
    private final long since = System.nanoTime();
    private byte[] bytes = {};
    private int length;
    private volatile long reserved;

    /** @param reserveByEviction reserves memory from the budget when it is exhausted; returns false if it cannot */
    BodyReader(ConnectionReader reader, int limit, ByteBudget budget, LongPredicate reserveByEviction, long deadline) {
        this.reader = reader;
        this.limit = limit;
        this.budget = budget;
        this.reserveByEviction = reserveByEviction;
        this.deadline = deadline;
    }

    /** When the body began to arrive, by {@link System#nanoTime}. */
    long since() {
        return since;
    }

    /** Bytes of the budget that the body takes. */
    long reserved() {
        return reserved;
    }

    /** Rejects a Content-Length beyond the limit before reading the body. */
    static void check(RequestHead head, int limit) {
        if (!head.isChunked() && head.length() > limit) {
            throw tooLarge(limit);
        }
    }

    byte[] read(RequestHead head) throws IOException {
        if (head.isChunked()) {
            for (int size = size(); size > 0; size = size()) {
                if (size > limit - length) {
                    throw tooLarge(limit);
                }
                append(size, limit);
                if (!line().isEmpty()) {
                    throw RequestHead.malformed("a chunk is longer than its size");
                }
            }
            trailers();
        } else {
            append((int) head.length(), (int) head.length());
        }
        resize(length);
        return bytes;
    }

    private void append(int count, int max) throws IOException {
        int end = length + count;
        while (length < end) {
            if (length == bytes.length) {
                resize(Math.min(max, Math.max(INITIAL_BUFFER, 2 * length)));
            }
            int part = Math.min(end, bytes.length) - length;
            reader.read(bytes, length, part, deadline);
            length += part;
        }
    }

    private void resize(int size) {
        if (size == bytes.length) {
            return;
        }
        if (size < bytes.length) {
            bytes = Arrays.copyOf(bytes, size);
            budget.release(reserved - size);
            reserved = size;
            return;
        }
        if (!budget.tryReserve(size) && !reserveByEviction.test(size)) {
            throw new HttpException(
                    503,
                    "overloaded",
                    "request bodies take all of the " + budget.total() + " bytes that the server has for them",
                    Map.of("Retry-After", "1"));
        }
        bytes = Arrays.copyOf(bytes, size);
        budget.release(reserved);
        reserved = size;
    }

    private void trailers() throws IOException {
        int count = 0;
        for (String line = line(); !line.isEmpty(); line = line()) {
            RequestHead.checkField(line);
            if (++count > MAX_TRAILERS) {
                throw RequestHead.malformed("more than " + MAX_TRAILERS + " trailers");
            }
        }
    }

    /** The size of a chunk, in hex; chunk extensions are ignored. */
    private int size() throws IOException {
        String line = line();
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

    private String line() throws IOException {
        byte[] line =
                reader.readUntil(LINE, MAX_LINE, deadline, RequestHead.malformed("a line of a chunk is too long"));
        return RequestHead.checkLine(new String(line, StandardCharsets.ISO_8859_1));
    }

    private static HttpException tooLarge(int limit) {
        return new HttpException(413, "body_too_large", "the body is larger than " + limit + " bytes");
    }

    /** Gives up the body, and its memory; idempotent. */
    @Override
    public void close() {
        bytes = new byte[0];
        budget.release(reserved);
        reserved = 0;
    }
}
