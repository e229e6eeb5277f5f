package dev.starforge.serve.http;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * Buffers what a client sends. One thread always reads the socket, also while a request is being served: a disconnect is seen at once,
 * without a write, and bytes of the next request are kept. A client that half-closes its connection counts as disconnected, since TCP
 * cannot tell the difference.
 */
final class ConnectionReader {
    /** A client that sends more than this during a request counts as disconnected: a disconnect behind it would not be seen. */
    static final int CAPACITY = 64 << 10;

    private static final int READ_SIZE = 4 << 10;

    /** What a connection may buffer outside the budget, so that an exhausted budget delays it but does not block it. */
    private static final int FREE = 2 * READ_SIZE;

    private static final long BUDGET_RETRY_NANOS = 50_000_000;

    private final InputStream in;
    private final ByteBudget budget;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition filled = lock.newCondition();
    private final Condition drained = lock.newCondition();
    private byte[] bytes = new byte[0];
    private int from;
    private int to;
    private int reserved;
    private boolean ended;
    private @Nullable Runnable onEnd;

    /** @param budget for what is buffered beyond the first {@link #FREE} bytes */
    ConnectionReader(InputStream in, ByteBudget budget) {
        this.in = in;
        this.budget = budget;
    }

    /** Reads until the connection ends; runs on the reader thread. */
    void readLoop() {
        byte[] chunk = new byte[READ_SIZE];
        try {
            for (int count = in.read(chunk); count >= 0; count = in.read(chunk)) {
                if (!append(chunk, count)) {
                    break;
                }
            }
        } catch (IOException | InterruptedException e) {
            // a reset ends the connection
        }
        Runnable action;
        lock.lock();
        try {
            ended = true;
            action = onEnd;
            onEnd = null;
            filled.signalAll();
        } finally {
            lock.unlock();
        }
        if (action != null) {
            action.run();
        }
    }

    private boolean append(byte[] chunk, int count) throws InterruptedException {
        lock.lock();
        try {
            while (!hasRoom(count)) {
                if (ended || onEnd != null) {
                    return false;
                }
                long _ = drained.awaitNanos(BUDGET_RETRY_NANOS);
            }
            System.arraycopy(chunk, 0, bytes, to, count);
            to += count;
            filled.signalAll();
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Makes room for {@code count} bytes. Returns false if the buffer may not grow that much now. */
    private boolean hasRoom(int count) {
        if (ended) {
            return false;
        }
        if (to + count <= bytes.length) {
            return true;
        }
        int length = to - from;
        byte[] larger = bytes;
        if (length + count > bytes.length) {
            int size = length + count <= FREE ? FREE : Math.max(length + count, Math.min(2 * bytes.length, CAPACITY));
            int more = Math.max(0, size - FREE) - reserved;
            if (size > CAPACITY || !budget.tryReserve(more)) {
                return false;
            }
            reserved += more;
            larger = new byte[size];
        }
        System.arraycopy(bytes, from, larger, 0, length);
        bytes = larger;
        from = 0;
        to = length;
        return true;
    }

    /** Runs {@code action} once when the connection ends, until {@link #clearOnEnd}; at once if it has ended. */
    void onEnd(Runnable action) {
        lock.lock();
        try {
            if (!ended) {
                onEnd = action;
                drained.signalAll();
                return;
            }
        } finally {
            lock.unlock();
        }
        action.run();
    }

    void clearOnEnd() {
        lock.lock();
        try {
            onEnd = null;
        } finally {
            lock.unlock();
        }
    }

    /** Gives up what is buffered, and its memory; reads find the end of the connection. */
    void close() {
        lock.lock();
        try {
            ended = true;
            from = 0;
            to = 0;
            shrink();
            filled.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Waits for a byte. Returns false if the deadline or the end of the connection comes first. */
    boolean awaitByte(long deadline) {
        lock.lock();
        try {
            return await(1, deadline);
        } catch (HttpException e) {
            return false;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Consumes the bytes up to a delimiter; returns them without it.
     *
     * @throws HttpException {@code tooLong} if the delimiter is not within the first {@code limit} bytes
     */
    byte[] readUntil(byte[] delimiter, int limit, long deadline, HttpException tooLong) throws IOException {
        lock.lock();
        try {
            int searched = 0;
            while (true) {
                int length = to - from;
                for (int i = Math.max(0, searched - delimiter.length); i + delimiter.length <= length; i++) {
                    if (Arrays.equals(bytes, from + i, from + i + delimiter.length, delimiter, 0, delimiter.length)) {
                        if (i > limit) {
                            throw tooLong;
                        }
                        byte[] taken = Arrays.copyOfRange(bytes, from, from + i);
                        consume(i + delimiter.length);
                        return taken;
                    }
                }
                if (length >= limit + delimiter.length) {
                    throw tooLong;
                }
                searched = length;
                if (!await(length + 1, deadline)) {
                    throw new EOFException("the client disconnected within a request");
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /** Consumes exactly {@code count} bytes. */
    void read(byte[] into, int at, int count, long deadline) throws IOException {
        lock.lock();
        try {
            int done = 0;
            while (done < count) {
                if (!await(1, deadline)) {
                    throw new EOFException("the client disconnected within a body");
                }
                int available = Math.min(count - done, to - from);
                System.arraycopy(bytes, from, into, at + done, available);
                consume(available);
                done += available;
            }
        } finally {
            lock.unlock();
        }
    }

    /** Discards up to {@code max} bytes, until the deadline or the end of the connection. */
    void discard(long max, long deadline) {
        lock.lock();
        try {
            long seen = 0;
            while (seen < max && await(1, deadline)) {
                seen += to - from;
                consume(to - from);
            }
        } catch (HttpException e) {
            consume(to - from);
        } finally {
            lock.unlock();
        }
    }

    /** Waits until {@code count} bytes are buffered. Returns false if the connection ends first. */
    private boolean await(int count, long deadline) {
        try {
            while (to - from < count) {
                if (ended) {
                    return false;
                }
                long left = deadline - System.nanoTime();
                if (left <= 0) {
                    throw new HttpException(408, "request_timeout", "the request did not arrive in time");
                }
                boolean _ = filled.await(left, TimeUnit.NANOSECONDS);
            }
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private void shrink() {
        if (bytes.length > READ_SIZE) {
            bytes = new byte[0];
            budget.release(reserved);
            reserved = 0;
        }
    }

    private void consume(int count) {
        from += count;
        if (from == to) {
            from = 0;
            to = 0;
            shrink();
        }
        drained.signalAll();
    }
}
