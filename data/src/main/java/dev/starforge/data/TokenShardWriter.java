package dev.starforge.data;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.zip.CRC32C;

/**
 * Writes a {@link TokenShard} document by document. {@link #finish} renames the partial file to its final name;
 * {@link #close} removes a partial file that is not finished.
 */
public final class TokenShardWriter implements AutoCloseable {
    private final Path file;
    private final Path partial;
    private final int vocabularySize;
    private final int version;
    private final FileChannel channel;
    private final ByteBuffer block = ByteBuffer.allocate(TokenShard.CHECKED).order(ByteOrder.LITTLE_ENDIAN);
    private long[] begins = new long[64];
    private int[] lengths = new int[64];
    private int[] checksums = new int[16];
    private int blocks;
    private int count;
    private long tokens;
    private long lossTokens;
    private long position = TokenShard.HEADER;

    /** Creates a shard with ids below {@code vocabularySize}. */
    public TokenShardWriter(Path file, int vocabularySize) {
        this.file = file;
        this.partial = file.resolveSibling(file.getFileName() + ".partial");
        this.vocabularySize = vocabularySize;
        version = TokenShard.version(vocabularySize);
        try {
            channel = FileChannel.open(
                    partial, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING);
            channel.position(TokenShard.HEADER);
        } catch (IOException failure) {
            throw new DatasetException(file, "cannot be written: " + failure.getMessage(), failure);
        }
    }

    public void add(TokenDocument document, SampleOrigin origin) {
        int length = document.ids().length;
        byte[][] texts = {utf8(document.id()), utf8(origin.commit()), utf8(origin.directory())};
        int mask = Math.toIntExact(TokenShard.idsLength(version, length));
        int size = Math.toIntExact(mask + TokenShard.maskLength(length) + 8);
        for (byte[] text : texts) {
            size = Math.addExact(size, 4 + text.length);
        }
        ByteBuffer bytes = ByteBuffer.allocate(Math.addExact(size, -size & 3)).order(ByteOrder.LITTLE_ENDIAN);
        for (int id : document.ids()) {
            if (id < 0 || id >= vocabularySize) {
                throw new DatasetException(
                        file, "document " + document.id() + " has id " + id + ", expected below " + vocabularySize);
            }
            if (version == TokenShard.VERSION_SHORT) {
                bytes.putShort((short) id);
            } else {
                bytes.putInt(id);
            }
        }
        for (int i = 0; i < length; i++) {
            if (document.counted()[i]) {
                bytes.put(mask + i / 8, (byte) (bytes.get(mask + i / 8) | 1 << i % 8));
            }
        }
        bytes.position(mask + (int) TokenShard.maskLength(length)).putLong(origin.time());
        for (byte[] text : texts) {
            bytes.putInt(text.length).put(text);
        }
        if (count == begins.length) {
            begins = Arrays.copyOf(begins, 2 * count);
            lengths = Arrays.copyOf(lengths, 2 * count);
        }
        begins[count] = position;
        lengths[count++] = length;
        tokens += length;
        lossTokens += document.lossTokens();
        write(bytes.clear());
    }

    /** Completes the file and renames it to its final name. */
    public void finish() {
        long table = position;
        ByteBuffer entry = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
        for (int document = 0; document < count; document++) {
            write(entry.clear().putLong(begins[document]).flip());
        }
        write(entry.clear().putLong(table).flip());
        for (int document = 0; document < count; document++) {
            write(entry.clear().putInt(lengths[document]).flip());
        }
        long end = position;
        flush();
        ByteBuffer sums = ByteBuffer.allocate(4 * blocks).order(ByteOrder.LITTLE_ENDIAN);
        sums.asIntBuffer().put(checksums, 0, blocks);
        ByteBuffer header = ByteBuffer.allocate(TokenShard.HEADER).order(ByteOrder.LITTLE_ENDIAN);
        header.putLong(TokenShard.MAGIC).putInt(version).putInt(vocabularySize);
        header.putLong(count).putLong(tokens).putLong(table).putLong(end);
        header.putInt(TokenShard.HEADER - 4, crc(header.array(), TokenShard.HEADER - 4));
        try {
            writeFully(sums);
            channel.position(0);
            writeFully(header.clear());
            channel.force(true);
            channel.close();
            Files.move(partial, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException failure) {
            throw new DatasetException(file, "cannot be written: " + failure.getMessage(), failure);
        }
    }

    public int count() {
        return count;
    }

    public long tokens() {
        return tokens;
    }

    /** Tokens that count in the loss. */
    public long lossTokens() {
        return lossTokens;
    }

    private void write(ByteBuffer bytes) {
        position += bytes.remaining();
        while (bytes.hasRemaining()) {
            int piece = Math.min(bytes.remaining(), block.remaining());
            block.put(bytes.slice(bytes.position(), piece));
            bytes.position(bytes.position() + piece);
            if (!block.hasRemaining()) {
                flush();
            }
        }
    }

    private void flush() {
        if (block.position() == 0) {
            return;
        }
        if (blocks == checksums.length) {
            checksums = Arrays.copyOf(checksums, 2 * blocks);
        }
        checksums[blocks++] = crc(block.array(), block.position());
        try {
            writeFully(block.flip());
        } catch (IOException failure) {
            throw new DatasetException(file, "cannot be written: " + failure.getMessage(), failure);
        }
        block.clear();
    }

    private void writeFully(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    private static int crc(byte[] bytes, int length) {
        CRC32C crc = new CRC32C();
        crc.update(bytes, 0, length);
        return (int) crc.getValue();
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public void close() {
        try {
            channel.close();
            Files.deleteIfExists(partial);
        } catch (IOException failure) {
            throw new DatasetException(partial, "cannot be removed: " + failure, failure);
        }
    }
}
