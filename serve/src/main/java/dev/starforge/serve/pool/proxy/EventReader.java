package dev.starforge.serve.pool.proxy;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.Optional;

/** Splits a stream into server-sent events, so that no event is relayed in part. */
final class EventReader {
    private static final int MAX_EVENT = 64 << 20;

    private final InputStream in;
    private byte[] buffer = new byte[8 << 10];
    private int from;
    private int to;

    EventReader(InputStream in) {
        this.in = in;
    }

    /** The next event with the empty line at its end; empty at the end of the stream. */
    Optional<byte[]> next() throws IOException {
        int searched = from;
        while (true) {
            for (int i = Math.max(from + 1, searched); i < to; i++) {
                if (buffer[i] == '\n' && buffer[i - 1] == '\n') {
                    byte[] event = Arrays.copyOfRange(buffer, from, i + 1);
                    from = i + 1;
                    return Optional.of(event);
                }
            }
            int length = to - from;
            if (!fill()) {
                if (length > 0) {
                    throw new EOFException("worker: the connection ended within an event");
                }
                return Optional.empty();
            }
            searched = from + length;
        }
    }

    /** Reads more bytes; returns false at the end of the stream. */
    private boolean fill() throws IOException {
        int length = to - from;
        if (length == buffer.length && length >= MAX_EVENT) {
            throw new IOException("worker: expected events of at most " + MAX_EVENT + " bytes");
        }
        byte[] target = length == buffer.length ? new byte[2 * length] : buffer;
        System.arraycopy(buffer, from, target, 0, length);
        buffer = target;
        from = 0;
        to = length;
        int count = in.read(buffer, to, buffer.length - to);
        to += Math.max(0, count);
        return count >= 0;
    }
}
