package dev.starforge.model.gguf;

import dev.starforge.model.ModelException;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * Reads the header of a GGUF file sequentially through a small window. Sizes are checked against the header limit
 * before memory is allocated. Errors name the file and the byte offset.
 */
final class GgufCursor {
    private static final int WINDOW = 1 << 16;

    private final Path path;
    private final FileChannel channel;
    private final long limit;
    private final ByteBuffer window =
            ByteBuffer.allocate(WINDOW).order(ByteOrder.LITTLE_ENDIAN).limit(0);
    private long windowEnd;

    /** Reads up to byte {@code limit}. */
    GgufCursor(Path path, FileChannel channel, long limit) {
        this.path = path;
        this.channel = channel;
        this.limit = limit;
    }

    long position() {
        return windowEnd - window.remaining();
    }

    int int32(String what) throws IOException {
        need(4, what);
        return window.getInt();
    }

    long int64(String what) throws IOException {
        need(8, what);
        return window.getLong();
    }

    /** Reads a count of elements of at least {@code smallest} bytes each. Throws if they exceed the remaining bytes. */
    int count(String what, int smallest) throws IOException {
        long count = int64(what);
        long most = (limit - position()) / smallest;
        if (count < 0 || count > most) {
            throw wrong(
                    position() - 8,
                    what + ": expected a count of 0.." + most + ", got " + Long.toUnsignedString(count));
        }
        return (int) count;
    }

    /** Reads a length-prefixed string. Bytes that are not UTF-8 become replacement characters. */
    String string(String what) throws IOException {
        return new String(bytes(count(what, 1), what).array(), StandardCharsets.UTF_8);
    }

    ByteBuffer bytes(int count, String what) throws IOException {
        if (count > limit - position()) {
            throw wrong(position(), what + " takes " + count + " bytes, " + (limit - position()) + " are left");
        }
        ByteBuffer bytes = ByteBuffer.allocate(count).order(ByteOrder.LITTLE_ENDIAN);
        while (bytes.hasRemaining()) {
            need(1, what);
            int now = Math.min(bytes.remaining(), window.remaining());
            bytes.put(window.slice(window.position(), now));
            window.position(window.position() + now);
        }
        return bytes.flip();
    }

    private void need(int count, String what) throws IOException {
        if (count > limit - position()) {
            throw wrong(position(), what + " takes " + count + " bytes, " + (limit - position()) + " are left");
        }
        if (window.remaining() < count) {
            window.compact().limit((int) Math.min(WINDOW, window.position() + limit - windowEnd));
            while (window.position() < count) {
                int read = channel.read(window, windowEnd);
                if (read < 0) {
                    throw new EOFException("unexpected end of file at byte " + windowEnd + " in " + what);
                }
                windowEnd += read;
            }
            window.flip();
        }
    }

    ModelException wrong(long offset, String message) {
        return new ModelException(path, "offset " + offset + ": " + message);
    }
}
