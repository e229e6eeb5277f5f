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
 * What a client has sent and nobody has used yet. One thread does nothing but read the socket, also while a request is being
 * answered: so the end of the connection is seen when it comes, without a write, and bytes of the next request are kept. A
 * client that closes only its sending side while it waits is taken for gone, since TCP does not tell the two apart.
 */
final class ConnectionReader {
    /** A client that sends more than this ahead of its turn is taken for gone: it could hide the end behind it. */
    static final int CAPACITY = 64 << 10;

    private static final int PIECE = 4 << 10;

    private final InputStream in;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition filled = lock.newCondition();
    private final Condition drained = lock.newCondition();
    private byte[] bytes = new byte[0];
    private int from;
    private int to;
    private boolean ended;
    private @Nullable Runnable watcher;

    ConnectionReader(InputStream in) {
        this.in = in;
    }

    /** Reads until the connection ends; the work of the reading thread. */
    void readLoop() {
        byte[] piece = new byte[PIECE];
        try {
            for (int count = in.read(piece); count >= 0; count = in.read(piece)) {
                if (!append(piece, count)) {
                    break;
                }
            }
        } catch (IOException | InterruptedException gone) {
            // a reset is an end like any other
        }
        Runnable told;
        lock.lock();
        try {
            ended = true;
            told = watcher;
            watcher = null;
            filled.signalAll();
        } finally {
            lock.unlock();
        }
        if (told != null) {
            told.run();
        }
    }

    private boolean append(byte[] piece, int count) throws InterruptedException {
        lock.lock();
        try {
            while (to - from + count > CAPACITY) {
                if (watcher != null) {
                    return false;
                }
                drained.await();
            }
            if (to + count > bytes.length) {
                int length = to - from;
                byte[] larger = length + count > bytes.length
                        ? new byte[Math.max(length + count, Math.min(2 * bytes.length, CAPACITY))]
                        : bytes;
                System.arraycopy(bytes, from, larger, 0, length);
                bytes = larger;
                from = 0;
                to = length;
            }
            System.arraycopy(piece, 0, bytes, to, count);
            to += count;
            filled.signalAll();
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Runs {@code whenGone} once, when the connection ends while nobody reads here; at once if it has ended. */
    void onEnd(Runnable whenGone) {
        lock.lock();
        try {
            if (!ended) {
                watcher = whenGone;
                drained.signalAll();
                return;
            }
        } finally {
            lock.unlock();
        }
        whenGone.run();
    }

    void clearOnEnd() {
        lock.lock();
        try {
            watcher = null;
        } finally {
            lock.unlock();
        }
    }

    /** Waits for the first byte; whether there is one before the deadline and the end. */
    boolean awaitByte(long deadline) {
        lock.lock();
        try {
            return await(1, deadline);
        } catch (HttpException late) {
            return false;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Takes the bytes before a delimiter, and the delimiter away.
     *
     * @throws HttpException {@code tooLong} when there is none among the first {@code limit} bytes
     */
    byte[] readUntil(byte[] delimiter, int limit, long deadline, HttpException tooLong) throws IOException {
        lock.lock();
        try {
            int looked = 0;
            while (true) {
                int length = to - from;
                for (int i = Math.max(0, looked - delimiter.length); i + delimiter.length <= length; i++) {
                    if (Arrays.equals(bytes, from + i, from + i + delimiter.length, delimiter, 0, delimiter.length)) {
                        if (i > limit) {
                            throw tooLong;
                        }
                        byte[] taken = Arrays.copyOfRange(bytes, from, from + i);
                        drop(i + delimiter.length);
                        return taken;
                    }
                }
                if (length >= limit + delimiter.length) {
                    throw tooLong;
                }
                looked = length;
                if (!await(length + 1, deadline)) {
                    throw new EOFException("the client left within a request");
                }
            }
        } finally {
            lock.unlock();
        }
    }

    /** Takes exactly so many bytes. */
    void read(byte[] into, int at, int count, long deadline) throws IOException {
        lock.lock();
        try {
            int done = 0;
            while (done < count) {
                if (!await(1, deadline)) {
                    throw new EOFException("the client left within a body");
                }
                int some = Math.min(count - done, to - from);
                System.arraycopy(bytes, from, into, at + done, some);
                drop(some);
                done += some;
            }
        } finally {
            lock.unlock();
        }
    }

    /** Throws away what comes until the client has nothing more to say, the deadline, or too much of it. */
    void discard(long most, long deadline) {
        lock.lock();
        try {
            long seen = 0;
            while (seen < most && await(1, deadline)) {
                seen += to - from;
                drop(to - from);
            }
        } catch (HttpException late) {
            drop(to - from);
        } finally {
            lock.unlock();
        }
    }

    /** Waits until so many bytes are here; false when the connection ends before. */
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
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private void drop(int count) {
        from += count;
        if (from == to) {
            from = 0;
            to = 0;
            if (bytes.length > PIECE) {
                bytes = new byte[0];
            }
        }
        drained.signalAll();
    }
}
