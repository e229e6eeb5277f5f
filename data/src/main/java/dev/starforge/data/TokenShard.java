package dev.starforge.data;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Objects;
import java.util.zip.CRC32C;

/**
 * A memory-mapped file of tokenized documents. Little-endian:
 *
 * <pre>
 * header     64 bytes: magic "SFTOKENS", version, vocabulary size, documents, tokens,
 *            offset of the table, offset of the checksums, crc32c of the bytes before
 * documents  for each its ids (version 2: uint16, padded to 4 bytes; version 1: int32), then its loss mask (one bit an id, lowest first, padded to 4 bytes),
 *            then its time (int64), then id, commit and directory (each an int32 length and UTF-8), padded to 4 bytes
 * table      documents + 1 times int64: where each document begins, and where the last one ends,
 *            then documents times int32: its number of ids
 * checksums  crc32c of every megabyte from the end of the header to here, the last one shorter
 * </pre>
 *
 * <p>Each document is contiguous, so the writer keeps only the table in memory, and a reader touches only the pages of the documents that it reads. There is a checksum per megabyte, so that errors name the damaged offset; all are verified when the file is opened.
 */
public final class TokenShard implements TokenDocuments {
    static final long MAGIC = ByteBuffer.wrap("SFTOKENS".getBytes(StandardCharsets.US_ASCII))
            .order(ByteOrder.LITTLE_ENDIAN)
            .getLong();
    /** With ids of 32 bits, for vocabularies that need them. */
    static final int VERSION_INT = 1;

    /** With ids of 16 bits. */
    static final int VERSION_SHORT = 2;

    private static final int SHORT_IDS = 1 << 16;
    static final int HEADER = 64;
    static final int CHECKED = 1 << 20;

    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfShort SHORT =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final Path file;
    private final Arena arena;
    private final MemorySegment bytes;
    private final int version;
    private final int vocabularySize;
    private final int count;
    private final long tokens;
    private final long table;

    private TokenShard(Path file, Arena arena, MemorySegment bytes) {
        this.file = file;
        this.arena = arena;
        this.bytes = bytes;
        if (bytes.byteSize() < HEADER || bytes.get(LONG, 0) != MAGIC) {
            throw damaged(0, "is not a token shard: expected the magic SFTOKENS");
        }
        version = bytes.get(INT, 8);
        if (version != VERSION_INT && version != VERSION_SHORT) {
            throw damaged(8, "expected version " + VERSION_INT + " or " + VERSION_SHORT + ", got " + version);
        }
        if (bytes.get(INT, HEADER - 4) != crc(0, HEADER - 4)) {
            throw damaged(HEADER - 4, "the header does not match its checksum");
        }
        vocabularySize = bytes.get(INT, 12);
        long documents = bytes.get(LONG, 16);
        tokens = bytes.get(LONG, 24);
        table = bytes.get(LONG, 32);
        long checksums = bytes.get(LONG, 40);
        long size = bytes.byteSize();
        if (documents < 0
                || documents > Integer.MAX_VALUE - 8
                || table < HEADER
                || table > size
                || checksums != table + 12 * documents + 8
                || size != checksums + 4 * ((checksums - HEADER + CHECKED - 1) / CHECKED)) {
            throw damaged(
                    size,
                    "is truncated or has extra bytes at the end: " + documents + " documents, table at " + table
                            + ", checksums at " + checksums + ", but the file has " + size + " bytes");
        }
        for (long from = HEADER; from < checksums; from += CHECKED) {
            long length = Math.min(CHECKED, checksums - from);
            if (bytes.get(INT, checksums + 4 * ((from - HEADER) / CHECKED)) != crc(from, length)) {
                throw damaged(from, "the next " + length + " bytes do not match their checksum");
            }
        }
        count = (int) documents;
        checkTable();
    }

    /** Opens a shard and verifies all checksums. */
    public static TokenShard open(Path file) {
        Arena arena = Arena.ofShared();
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            return new TokenShard(file, arena, channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena));
        } catch (IOException failure) {
            arena.close();
            throw new DatasetException(file, "cannot be read: " + failure, failure);
        } catch (RuntimeException failure) {
            arena.close();
            throw failure;
        }
    }

    private void checkTable() {
        long sum = 0;
        long expected = HEADER;
        for (int document = 0; document < count; document++) {
            long length = bytes.get(INT, lengths() + 4L * document);
            long begin = begin(document);
            if (length < 0 || begin != expected || begin + bodyLength(length) > begin(document + 1)) {
                throw damaged(
                        table + 8L * document, "document " + document + " does not begin at the offset in the table");
            }
            expected = begin(document + 1);
            sum += length;
        }
        if (expected != table || begin(count) != table || sum != tokens) {
            throw damaged(
                    table,
                    "the documents end at " + expected + " with " + sum + " tokens, expected " + table + " with "
                            + tokens);
        }
    }

    /** The version of a shard for a vocabulary. */
    static int version(int vocabularySize) {
        return vocabularySize <= SHORT_IDS ? VERSION_SHORT : VERSION_INT;
    }

    /** Returns the size of ids in bytes. */
    static long idsLength(int version, long ids) {
        return version == VERSION_SHORT ? (ids + 1) / 2 * 4 : 4 * ids;
    }

    /** Returns the size of ids, mask and time in bytes. */
    private long bodyLength(long ids) {
        return idsLength(version, ids) + maskLength(ids) + 8;
    }

    static long maskLength(long ids) {
        return (ids + 31) / 32 * 4;
    }

    private long lengths() {
        return table + 8L * (count + 1);
    }

    private long begin(int document) {
        return bytes.get(LONG, table + 8L * document);
    }

    private int crc(long from, long length) {
        CRC32C crc = new CRC32C();
        crc.update(bytes.asSlice(from, length).asByteBuffer());
        return (int) crc.getValue();
    }

    private DatasetException damaged(long offset, String message) {
        return new DatasetException(file, "offset " + offset + ": " + message);
    }

    public Path file() {
        return file;
    }

    /** Returns the vocabulary size; all ids are below it. */
    public int vocabularySize() {
        return vocabularySize;
    }

    @Override
    public int count() {
        return count;
    }

    @Override
    public long tokens() {
        return tokens;
    }

    @Override
    public int length(int document) {
        return bytes.get(INT, lengths() + 4L * Objects.checkIndex(document, count));
    }

    @Override
    public TokenDocument read(int document) {
        int length = length(document);
        long begin = begin(document);
        int[] ids = new int[length];
        for (int i = 0; i < length; i++) {
            ids[i] = version == VERSION_SHORT
                    ? Short.toUnsignedInt(bytes.get(SHORT, begin + 2L * i))
                    : bytes.get(INT, begin + 4L * i);
            if (ids[i] < 0 || ids[i] >= vocabularySize) {
                throw damaged(begin + idsLength(version, i), "id " + ids[i] + ", expected below " + vocabularySize);
            }
        }
        boolean[] counted = new boolean[length];
        long mask = begin + idsLength(version, length);
        for (int i = 0; i < length; i++) {
            counted[i] = (bytes.get(ValueLayout.JAVA_BYTE, mask + i / 8) >> (i % 8) & 1) != 0;
        }
        return new TokenDocument(new Strings(document).next(), ids, counted);
    }

    /** Returns the origin of a document. */
    public SampleOrigin origin(int document) {
        long time = bytes.get(LONG, begin(document) + bodyLength(length(document)) - 8);
        Strings strings = new Strings(document);
        strings.next();
        return new SampleOrigin(strings.next(), time, strings.next());
    }

    /** Returns the id of a document without reading its tokens. */
    public String id(int document) {
        return new Strings(document).next();
    }

    /** Reads the strings after a document's token ids. */
    private final class Strings {
        private final long end;
        private long at;

        Strings(int document) {
            at = begin(document) + bodyLength(length(document));
            end = begin(document + 1);
        }

        String next() {
            long length = at + 4 <= end ? bytes.get(INT, at) : -1;
            if (length < 0 || at + 4 + length > end) {
                throw damaged(at, "a string of " + length + " bytes, but the document ends at " + end);
            }
            byte[] text = bytes.asSlice(at + 4, length).toArray(ValueLayout.JAVA_BYTE);
            at += 4 + length;
            return new String(text, StandardCharsets.UTF_8);
        }
    }

    @Override
    public void close() {
        arena.close();
    }
}
