package dev.starforge.data.git;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.function.Consumer;
import org.eclipse.jgit.errors.MissingObjectException;
import org.eclipse.jgit.lib.Constants;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.ObjectLoader;
import org.eclipse.jgit.lib.ObjectReader;

/** Reads the contents of blobs up to a maximum size, for one thread. */
public final class BlobReader implements AutoCloseable {
    private static final int BINARY_CHECK_BYTES = 8000;

    /** Objects of at least this size can be streamed. */
    private static final int STREAMED = 64 << 10;

    private static final byte[] NOTHING = new byte[0];

    /** Kinds of content. */
    public enum ContentKind {
        TEXT,
        BINARY,
        TOO_LARGE,
        MISSING
    }

    private final ObjectReader reader;
    private final int largest;
    private final Consumer<ObjectId> missing;
    private final BlobCache recent = new BlobCache();

    /**
     * @param reader not shared: its threshold for streaming makes it unsuitable for large trees
     * @param missing called with the id of a missing blob; may throw
     */
    BlobReader(ObjectReader reader, int largest, Consumer<ObjectId> missing) {
        this.reader = reader;
        this.missing = missing;
        reader.setStreamFileThreshold(STREAMED);
        this.largest = largest;
    }

    ObjectReader reader() {
        return reader;
    }

    long size(FileChange.Side side) throws IOException {
        return !side.exists() || side.isSubmodule() || isMissing(side)
                ? 0
                : reader.getObjectSize(side.id(), Constants.OBJ_BLOB);
    }

    /** The size of a blob, or 0 if it is larger than what is read. */
    long readableSize(FileChange.Side side) throws IOException {
        long size = size(side);
        return size > largest ? 0 : size;
    }

    /** Returns true if the repository lacks the blob, as a partial clone may. */
    public boolean isMissing(FileChange.Side side) throws IOException {
        return side.exists() && !side.isSubmodule() && !reader.has(side.id(), Constants.OBJ_BLOB);
    }

    /**
     * The content as git shows it: the target of a link, a line for a submodule, no bytes if there is no file. Empty if the
     * blob is too large or missing. The array is shared; do not modify it.
     */
    public Optional<byte[]> read(FileChange.Side side) throws IOException {
        if (!side.exists()) {
            return Optional.of(NOTHING);
        }
        if (side.isSubmodule()) {
            return Optional.of(("Subproject commit " + side.id().name() + "\n").getBytes(StandardCharsets.US_ASCII));
        }
        return read(side.id());
    }

    /** Classifies the content like git. Only the beginning of a large file is read, which saves time with binary files. */
    public ContentKind kind(FileChange.Side side) throws IOException {
        byte[] beginning;
        if (!side.exists() || side.isSubmodule() || recent.get(side.id()).isPresent()) {
            beginning = read(side).orElseThrow();
        } else {
            Optional<ObjectLoader> opened = open(side.id());
            if (opened.isEmpty()) {
                return ContentKind.MISSING;
            }
            ObjectLoader loader = opened.get();
            if (loader.getSize() > largest) {
                return ContentKind.TOO_LARGE;
            }
            beginning = loader.isLarge() ? beginning(loader) : recent.put(side.id(), loader.getCachedBytes());
        }
        return isBinary(beginning) ? ContentKind.BINARY : ContentKind.TEXT;
    }

    private static byte[] beginning(ObjectLoader loader) throws IOException {
        try (InputStream stream = loader.openStream()) {
            return stream.readNBytes(BINARY_CHECK_BYTES);
        }
    }

    public Optional<byte[]> read(ObjectId id) throws IOException {
        Optional<byte[]> known = recent.get(id);
        if (known.isPresent()) {
            return known;
        }
        Optional<ObjectLoader> loader = open(id);
        return loader.isEmpty() || loader.get().getSize() > largest
                ? Optional.empty()
                : Optional.of(recent.put(id, loader.get().getCachedBytes(largest)));
    }

    private Optional<ObjectLoader> open(ObjectId id) throws IOException {
        try {
            return Optional.of(reader.open(id, Constants.OBJ_BLOB));
        } catch (MissingObjectException notHere) {
            missing.accept(id);
            return Optional.empty();
        }
    }

    /** Returns true if the content has a zero byte near the beginning, as git decides. */
    public static boolean isBinary(byte[] content) {
        for (int i = 0; i < Math.min(content.length, BINARY_CHECK_BYTES); i++) {
            if (content[i] == 0) {
                return true;
            }
        }
        return false;
    }

    /** Returns true if the bytes are well-formed UTF-8. */
    public static boolean isUtf8(byte[] bytes) {
        return isUtf8(bytes, bytes.length);
    }

    public static boolean isUtf8(ByteBuilder bytes) {
        return isUtf8(bytes.array(), bytes.size());
    }

    private static boolean isUtf8(byte[] bytes, int length) {
        int i = 0;
        while (i < length) {
            int b = bytes[i++];
            if (b >= 0) {
                continue;
            }
            b &= 0xFF;
            int more = b >= 0xC2 && b <= 0xDF ? 1 : b >= 0xE0 && b <= 0xEF ? 2 : b >= 0xF0 && b <= 0xF4 ? 3 : 0;
            if (more == 0 || i + more > length) {
                return false;
            }
            int second = bytes[i] & 0xFF;
            int lowest = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
            int highest = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
            if (second < lowest || second > highest) {
                return false;
            }
            for (int k = 1; k < more; k++) {
                if ((bytes[i + k] & 0xC0) != 0x80) {
                    return false;
                }
            }
            i += more;
        }
        return true;
    }

    @Override
    public void close() {
        reader.close();
    }
}
