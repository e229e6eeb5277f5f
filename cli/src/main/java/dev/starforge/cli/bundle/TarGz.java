package dev.starforge.cli.bundle;

import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.GZIPOutputStream;

/**
 * Writes a gzip-compressed tar archive in ustar format, with the GNU extension for sizes from 8 GiB. The JDK has no tar, and zip
 * loses executable permissions. Times and owners are omitted, so that the same files produce the same archive.
 */
final class TarGz implements AutoCloseable {
    private static final int BLOCK = 512;
    private static final int NAME = 100;
    private static final int PREFIX = 155;
    private static final long LARGEST_OCTAL = 0_77777777777L;

    private final OutputStream out;

    TarGz(Path file) throws IOException {
        out = new GZIPOutputStream(new BufferedOutputStream(Files.newOutputStream(file)), 1 << 16);
    }

    void add(String name, Path file) throws IOException {
        try (InputStream in = Files.newInputStream(file)) {
            add(name, Files.isExecutable(file), Files.size(file), in);
        }
    }

    void add(String name, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        add(name, false, bytes.length, new ByteArrayInputStream(bytes));
    }

    private void add(String name, boolean executable, long size, InputStream in) throws IOException {
        out.write(header(name, executable, size));
        long written = in.transferTo(out);
        if (written != size) {
            throw new IOException(name + ": expected " + size + " bytes, read " + written
                    + "; the file changed while it was packaged");
        }
        out.write(new byte[(int) (Math.ceilDiv(size, BLOCK) * BLOCK - size)]);
    }

    private static byte[] header(String name, boolean executable, long size) throws IOException {
        ByteBuffer header = ByteBuffer.allocate(BLOCK);
        byte[] path = name.getBytes(StandardCharsets.UTF_8);
        int cut = path.length <= NAME ? -1 : name.indexOf('/', Math.max(0, path.length - NAME - 1));
        String prefix = cut < 0 ? "" : name.substring(0, cut);
        String last = name.substring(cut + 1);
        if (last.getBytes(StandardCharsets.UTF_8).length > NAME
                || prefix.getBytes(StandardCharsets.UTF_8).length > PREFIX) {
            throw new IOException(name + ": name too long for a tar archive");
        }
        put(header, 0, last);
        put(header, 100, executable ? "0000755" : "0000644");
        put(header, 108, "0000000");
        put(header, 116, "0000000");
        if (size <= LARGEST_OCTAL) {
            put(header, 124, String.format("%011o", size));
        } else {
            header.put(124, (byte) 0x80).putLong(128, size);
        }
        put(header, 136, "00000000000");
        put(header, 148, "        ");
        put(header, 156, "0");
        put(header, 257, "ustar");
        put(header, 263, "00");
        put(header, 345, prefix);
        int sum = 0;
        for (byte each : header.array()) {
            sum += Byte.toUnsignedInt(each);
        }
        put(header, 148, String.format("%06o", sum));
        header.put(154, (byte) 0);
        return header.array();
    }

    private static void put(ByteBuffer header, int at, String text) {
        header.put(at, text.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void close() throws IOException {
        out.write(new byte[2 * BLOCK]);
        out.close();
    }
}
